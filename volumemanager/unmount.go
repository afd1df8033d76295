package volumemanager

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/subpath"
)

func (m *Manager) unmountOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	if m.actual.volumes[name].block {
		return m.unmapOperation(name, pod)
	}
	return executor.Operation{
		Key:  executor.Key{Volume: name, Pod: pod},
		Name: opUnmount,
		Run:  func(ctx context.Context) error { return m.unmount(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) { m.unmountEnded(name, pod, err) },
	}
}

// unmount unmounts a volume from a pod that no longer wants it. A failure leaves the mount
// uncertain.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmountVolumeFunc (v1.36).
func (m *Manager) unmount(ctx context.Context, name corev1.UniqueVolumeName, pod types.UID) error {
	actual := m.actual.volumes[name]
	if actual == nil || actual.mountState(pod) == notMounted {
		return nil
	}
	if wanted := m.desired.volumes[name]; wanted != nil && wanted.wantedBy(pod) && !actual.mislabelled(wanted) {
		return nil // the pod was added again meanwhile
	}
	have := actual.pods[pod]
	have.state = mountUncertain
	if err := m.cleanSubPaths(have.specName, pod); err != nil {
		return err
	}
	if wanted := m.desired.volumes[name]; wanted != nil && wanted.wantedBy(pod) && !actual.mislabelled(wanted) {
		return nil // the pod was added again, and has the volume mounted again before its containers start
	}
	if err := actual.caps.Mounter.TearDown(ctx, have.specName, pod); err != nil {
		return err
	}
	m.actual.removeMount(actual, pod)
	m.cfg.PodChanged(pod)
	return nil
}

// cleanSubPaths unbinds the subPaths of a volume from the containers of an ended pod. A busy one
// keeps the volume mounted.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmountVolumeFunc (v1.36).
func (m *Manager) cleanSubPaths(specName string, pod types.UID) error {
	if m.cfg.FS == nil {
		return nil
	}
	disk := subpath.Binder{Process: m.cfg.Process, FS: m.cfg.FS}
	if err := disk.Clean(filepath.Join(m.cfg.Root, "pods", string(pod)), specName); err != nil {
		return fmt.Errorf("error cleaning subPath mounts: %w", err)
	}
	return nil
}

func (m *Manager) unmountDeviceOperation(name corev1.UniqueVolumeName) executor.Operation {
	if m.actual.volumes[name].block {
		return m.unmapDeviceOperation(name)
	}
	return executor.Operation{
		Key:  executor.Key{Volume: name},
		Name: opUnmountDevice,
		Run:  func(ctx context.Context) error { return m.unmountDevice(ctx, name) },
		Done: func(_ executor.Outcome, err error) { m.unmountEnded(name, "", err) },
	}
}

// unmountDevice unmounts a volume from the node when no pod has it any more. It reads the state
// when it runs: a mount may have ended since the decision.
//
// Differs: an error that says that nothing was started, such as an unregistered driver, leaves it
// as it was; for upstream it becomes uncertain, and is staged once more if a pod wants it again.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmountDeviceFunc (v1.36).
func (m *Manager) unmountDevice(ctx context.Context, name corev1.UniqueVolumeName) error {
	actual := m.actual.volumes[name]
	if actual == nil || len(actual.pods) > 0 || actual.device == notMounted {
		return nil
	}
	before := actual.device
	actual.device = mountUncertain
	if err := actual.caps.DeviceMounter.UnmountDevice(ctx, actual.mountPath); err != nil {
		if plugins.ClassOf(err) == plugins.Transient {
			actual.device = before
		}
		return err
	}
	actual.device = notMounted
	return nil
}
