package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A BlockMapper is a plugin whose volumes pods can use as block devices. It provides the device;
// the kubelet links and locks it. A BlockMapper must also be a BlockPaths. All methods are
// idempotent.
//
// Upstream: pkg/volume BlockVolumePlugin, CustomBlockVolumeMapper, CustomBlockVolumeUnmapper
// (v1.36).
type BlockMapper interface {
	// SetUpDevice prepares the volume for the node, and returns the staging path. If opts say that
	// it was prepared before, an error must not change that.
	SetUpDevice(ctx context.Context, spec *Spec, pod *corev1.Pod, opts MountOptions) (stagingPath string, err error)
	// MapPodDevice provides the device for the pod, and returns its path; "" is the path that
	// Attach returned.
	MapPodDevice(ctx context.Context, spec *Spec, pod *corev1.Pod, opts MountOptions) (publishPath string, err error)
	// UnmapPodDevice undoes MapPodDevice. It succeeds if there is nothing to undo.
	UnmapPodDevice(ctx context.Context, specName string, pod types.UID) error
	// TearDownDevice undoes SetUpDevice; spec may be a reconstructed one. It succeeds if there is
	// nothing to undo.
	TearDownDevice(ctx context.Context, spec *Spec) error
}

// BlockPaths are the paths at which the kubelet maps the block volumes of a BlockMapper.
//
// Upstream: pkg/volume BlockVolume (v1.36).
type BlockPaths interface {
	// GlobalMapPath returns the directory in which the volume is mapped for the node: one file per
	// pod.
	GlobalMapPath(spec *Spec) (string, error)
	// PodDeviceMapPath returns the directory of the pod's link to the device, and the link's name.
	PodDeviceMapPath(specName string, pod types.UID) (dir, link string)
}

// A BlockReconstructor is a BlockMapper that can determine from the node's disk alone what was
// mapped for a pod.
//
// Upstream: pkg/volume BlockVolumePlugin.ConstructBlockVolumeSpec (v1.36).
type BlockReconstructor interface {
	// ReconstructBlock returns the volume that SetUpDevice or MapPodDevice has prepared for the
	// pod, or begun to prepare. The error matches fs.ErrNotExist if the disk holds no record of
	// one.
	ReconstructBlock(specName string, pod types.UID) (Reconstructed, error)
}
