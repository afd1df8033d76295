package volumemanager

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
)

// errNoDevices says that block volumes are not served.
var errNoDevices = errors.New("block volumes are not served yet")

// mapVolume makes a volume be there as a device for a pod.
//
// Upstream: pkg/volume/util/operationexecutor GenerateMapVolumeFunc (v1.36).
func (m *Manager) mapVolume(context.Context, corev1.UniqueVolumeName, types.UID) error {
	return errNoDevices
}

// unmapOperation takes the device away from a pod.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmapVolumeFunc (v1.36).
func (m *Manager) unmapOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	return executor.Operation{
		Key: executor.Key{Volume: name, Pod: pod}, Name: executor.UnmapVolume,
		Run: func(context.Context) error { return errNoDevices },
	}
}

// unmapDeviceOperation takes the device away from the node.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmapDeviceFunc (v1.36).
func (m *Manager) unmapDeviceOperation(name corev1.UniqueVolumeName) executor.Operation {
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: executor.UnmapDevice,
		Run: func(context.Context) error { return errNoDevices },
	}
}
