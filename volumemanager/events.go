package volumemanager

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
)

// Reasons of a kubelet's events about volumes. Upstream has no event for a volume that cannot be
// unmounted; here there is one for an operation that panicked.
//
// Upstream: pkg/kubelet/events.
const (
	reasonFailedMount   = "FailedMount"
	reasonFailedMap     = "FailedMapVolume"
	reasonMounted       = "SuccessfulMountVolume"
	reasonFailedUnmount = "FailedUnMount"

	reasonVolumeResizeFailed      = "VolumeResizeFailed"
	reasonFileSystemResizeFailed  = "FileSystemResizeFailed"
	reasonFileSystemResizeSuccess = "FileSystemResizeSuccessful"
)

// mountEnded reports a panic of a mount to the pod. mount has reported other failures.
func (m *Manager) mountEnded(want desiredMount, err error) {
	if panicked := (*executor.PanicError)(nil); errors.As(err, &panicked) {
		m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedMount,
			fmt.Sprintf("MountVolume failed for volume %q : %v", want.spec.Name(), err))
	}
}

// unmountEnded reports a panic of an unmount: to the pod if it still exists, otherwise to the node.
func (m *Manager) unmountEnded(name corev1.UniqueVolumeName, pod types.UID, err error) {
	panicked := (*executor.PanicError)(nil)
	if !errors.As(err, &panicked) {
		return
	}
	text := fmt.Sprintf("UnmountVolume failed for volume %q : %v", name, err)
	switch p := m.desired.pods[pod]; {
	case p != nil:
		m.cfg.Recorder.Event(p.pod, corev1.EventTypeWarning, reasonFailedUnmount, text)
	case m.node != nil:
		m.cfg.Recorder.Event(m.node, corev1.EventTypeWarning, reasonFailedUnmount, text)
	}
}
