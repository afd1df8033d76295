package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

func (m *Manager) unmapOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	return executor.Operation{
		Key:  executor.Key{Volume: name, Pod: pod},
		Name: opUnmapVolume,
		Run:  func(ctx context.Context) error { return m.unmapVolume(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) { m.unmountEnded(name, pod, err) },
	}
}

// unmapVolume unmaps the device from a pod that no longer wants it. A failure leaves the mapping
// uncertain.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmapVolumeFunc (v1.36).
func (m *Manager) unmapVolume(ctx context.Context, name corev1.UniqueVolumeName, pod types.UID) error {
	actual := m.actual.volumes[name]
	if actual == nil || actual.mountState(pod) == notMounted {
		return nil
	}
	if wanted := m.desired.volumes[name]; wanted != nil && wanted.wantedBy(pod) {
		return nil // the pod was added again meanwhile
	}
	mapper := actual.caps.BlockMapper
	if mapper == nil {
		return errNoMapper
	}
	have := actual.pods[pod]
	global, err := actual.caps.BlockPaths.GlobalMapPath(withName(actual.spec, have.specName))
	if err != nil {
		return fmt.Errorf("UnmapVolume.GetGlobalMapPath failed: %w", err)
	}
	have.state = mountUncertain
	dir, link := actual.caps.BlockPaths.PodDeviceMapPath(have.specName, pod)
	at := podDevice{volume: name, pod: pod, global: global, dir: dir, link: link}
	if err := m.unmapDevice(at); err != nil {
		return fmt.Errorf("UnmapVolume.UnmapBlockVolume failed: %w", err)
	}
	if err := mapper.UnmapPodDevice(ctx, have.specName, pod); err != nil {
		return fmt.Errorf("UnmapVolume.UnmapPodDevice failed: %w", err)
	}
	if err := m.cfg.FS.Remove(at.node()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("UnmapVolume.UnmapBlockVolume failed: %w", err)
	}
	m.actual.removeMount(actual, pod)
	m.cfg.PodChanged(pod)
	return nil
}

// withName returns the volume under the name by which a pod has it: two PersistentVolumes may be
// the same volume of a driver.
func withName(spec *plugins.Spec, name string) *plugins.Spec {
	if spec.Name() == name || spec.PersistentVolume == nil {
		return spec
	}
	volume, other := *spec.PersistentVolume, *spec
	volume.Name = name
	other.PersistentVolume = &volume
	return &other
}

func (m *Manager) unmapDeviceOperation(name corev1.UniqueVolumeName) executor.Operation {
	return executor.Operation{
		Key:  executor.Key{Volume: name},
		Name: opUnmapDevice,
		Run:  func(ctx context.Context) error { return m.tearDownDevice(ctx, name) },
		Done: func(_ executor.Outcome, err error) { m.unmountEnded(name, "", err) },
	}
}

// tearDownDevice removes the device from the node when no pod has it any more, neither in the
// actual state nor on the disk.
//
// Differs: an error that says that nothing was started leaves it as it was, as in unmountDevice.
// Upstream finally checks whether the device is still open, at a path that is gone by then.
//
// Upstream: pkg/volume/util/operationexecutor GenerateUnmapDeviceFunc (v1.36).
func (m *Manager) tearDownDevice(ctx context.Context, name corev1.UniqueVolumeName) error {
	actual := m.actual.volumes[name]
	if actual == nil || len(actual.pods) > 0 || actual.device == notMounted {
		return nil
	}
	mapper := actual.caps.BlockMapper
	if mapper == nil {
		return errNoMapper
	}
	refs, err := m.deviceRefs(actual.mountPath)
	if err != nil {
		return fmt.Errorf("UnmapDevice.GetDeviceBindMountRefs check failed: %w", err)
	}
	if len(refs) > 0 {
		return fmt.Errorf("UnmapDevice failed: the device %q is still referenced from other Pods %v",
			actual.mountPath, refs)
	}
	before := actual.device
	actual.device = mountUncertain
	if err := mapper.TearDownDevice(ctx, actual.spec); err != nil {
		if plugins.ClassOf(err) == plugins.Transient {
			actual.device = before
		}
		return fmt.Errorf("UnmapDevice.TearDownDevice failed: %w", err)
	}
	if err := m.cfg.FS.RemoveAll(actual.mountPath); err != nil {
		return fmt.Errorf("UnmapDevice.RemoveMapPath failed: %w", err)
	}
	actual.device = notMounted
	return nil
}

// deviceRefs returns the device nodes in a volume's global directory. Each belongs to a pod that
// has the device.
//
// Upstream: pkg/volume/util/volumepathhandler GetDeviceBindMountRefs (v1.36).
func (m *Manager) deviceRefs(global string) ([]string, error) {
	names, err := m.cfg.FS.ReadDir(global)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var refs []string
	for _, name := range names {
		path := filepath.Join(global, name)
		info, err := m.cfg.FS.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Mode&fs.ModeDevice != 0 {
			refs = append(refs, path)
		}
	}
	return refs, err
}
