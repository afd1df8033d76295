package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BlockMapper is offered by plugins whose volumes pods can use as devices. The kubelet links and locks the device itself: a
// plugin makes it be there. All is idempotent.
//
// Upstream: pkg/volume BlockVolumePlugin, CustomBlockVolumeMapper, CustomBlockVolumeUnmapper (v1.36).
type BlockMapper interface {
	// GlobalMapPath is the directory in which the volume is mapped for the node: one file in it for each pod.
	GlobalMapPath(spec *Spec) (string, error)
	// PodDeviceMapPath is the directory of the pod's link to the device, and the link's name.
	PodDeviceMapPath(specName string, pod types.UID) (dir, link string)
	// StagingPath is where SetUpDevice prepares the volume; "" for a plugin that needs no such place.
	StagingPath(spec *Spec) string
	// SetUpDevice prepares the volume for the node, and returns where. Use tells whether it was prepared before, and then is left so
	// whatever fails.
	SetUpDevice(ctx context.Context, spec *Spec, pod *corev1.Pod, use MountOptions) (stagingPath string, err error)
	// MapPodDevice makes the device for the pod, and returns where; "" is the path that attaching returned.
	MapPodDevice(ctx context.Context, spec *Spec, pod *corev1.Pod, use MountOptions) (publishPath string, err error)
	// UnmapPodDevice undoes MapPodDevice. Nothing there is success.
	UnmapPodDevice(ctx context.Context, specName string, pod types.UID) error
	// TearDownDevice undoes SetUpDevice; spec may be a reconstructed one. Nothing there is success.
	TearDownDevice(ctx context.Context, spec *Spec) error
	// ReconstructBlock is to devices what Reconstructor is to mounts.
	ReconstructBlock(specName string, pod types.UID) (Reconstructed, error)
}
