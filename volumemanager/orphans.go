package volumemanager

import (
	"context"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// orphans are the volumes found on the disk that could not be identified.
type orphans struct {
	volumes map[types.UID][]*foundVolume // by pod, sorted by path; none is empty
	devices []foundDevice
}

// A foundDevice is a path where a volume may be mounted for the node.
type foundDevice struct {
	caps plugins.Capabilities
	path string
}

func (r *orphans) add(v *foundVolume) {
	if r.volumes == nil {
		r.volumes = map[types.UID][]*foundVolume{}
	}
	r.volumes[v.pod] = append(r.volumes[v.pod], v)
}

// drop removes the volumes of a pod for which is returns true.
func (r *orphans) drop(pod types.UID, is func(*foundVolume) bool) {
	left := slices.DeleteFunc(r.volumes[pod], is)
	if len(left) == 0 {
		delete(r.volumes, pod)
		return
	}
	r.volumes[pod] = left
}

// cleanOrphans cleans up, once, what could not be reconstructed and no pod wants. What a pod may
// want waits until the pod has it or is gone; see cleanOrphansOf. A failed cleanup leaves its files
// on the disk.
//
// Differs: upstream forgets what a pod wants at that moment, and does not clean up device mounts.
//
// Upstream: pkg/kubelet/volumemanager/reconciler cleanOrphanVolumes, cleanupMounts (v1.36).
func (m *Manager) cleanOrphans() {
	for _, uid := range slices.Sorted(maps.Keys(m.orphans.volumes)) {
		m.cleanOrphansOf(uid)
	}
	m.cleanDevices()
}

// cleanDevices unmounts the device mounts that no pod wants. Pod mounts that are being cleaned up
// may be of such a device: they go first, and call this function again.
func (m *Manager) cleanDevices() {
	if len(m.orphans.devices) == 0 || m.orphans.cleaning() {
		return
	}
	wanted, known := m.deviceMountPoints()
	for _, d := range m.orphans.devices {
		if known && !wanted.Has(d.path) {
			m.start(m.cleanDeviceOperation(d))
		}
	}
	m.orphans.devices = nil
}

// cleaning reports whether anything of a pod is being cleaned up.
func (r *orphans) cleaning() bool {
	for _, volumes := range r.volumes {
		if slices.ContainsFunc(volumes, func(v *foundVolume) bool { return v.cleaned }) {
			return true
		}
	}
	return false
}

// cleanOrphansOf cleans up what could not be reconstructed of a pod, unless the pod has it by now
// or may want it, or its plugin is awaited.
func (m *Manager) cleanOrphansOf(uid types.UID) {
	if len(m.orphans.volumes[uid]) == 0 {
		return
	}
	m.orphans.drop(uid, func(v *foundVolume) bool { return m.actual.has(uid, v.specName) })
	if m.desired.pods[uid] != nil {
		return
	}
	for _, v := range m.orphans.volumes[uid] {
		if !v.cleaned && !m.isLate(v) {
			v.cleaned = true
			m.start(m.cleanOperation(v))
		}
	}
}

// has reports whether a pod has a volume of a name.
func (a *actualState) has(pod types.UID, specName string) bool {
	return slices.ContainsFunc(a.podVolumes[pod],
		func(v *actualVolume) bool { return v.pods[pod].specName == specName })
}

// deviceMountPoints returns the paths where volumes are or will be mounted for the node. known is
// false if one cannot be determined.
func (m *Manager) deviceMountPoints() (paths sets.Set[string], known bool) {
	paths = make(sets.Set[string], len(m.desired.volumes)+len(m.actual.volumes))
	for _, v := range m.desired.volumes {
		at, err := deviceMountPoint(v.caps, v.anySpec(), v.block, v.deviceMountable)
		if err != nil {
			return nil, false
		}
		paths.Insert(at)
	}
	for _, v := range m.actual.volumes {
		paths.Insert(v.mountPath)
	}
	return paths, true
}

// cleanOperation returns the operation that unmounts a pod's volume by its path. It leaves what
// belongs to an unknown plugin.
func (m *Manager) cleanOperation(found *foundVolume) executor.Operation {
	return executor.Operation{
		Key: executor.Key{
			Volume: plugins.UniquePodVolumeName(found.plugin, found.specName, found.pod),
			Pod:    found.pod,
		},
		Name: opUnmount,
		Run: func(ctx context.Context) error {
			log := logr.FromContextOrDiscard(ctx).WithValues("pod", found.pod, "plugin",
				found.plugin, "volume", found.specName)
			log.Info("clean up orphaned volume", "reason", found.why.Error())
			caps, err := m.cfg.Plugins.FindByName(found.plugin)
			switch {
			case err != nil:
			case found.block && caps.BlockMapper != nil:
				err = caps.BlockMapper.UnmapPodDevice(ctx, found.specName, found.pod)
			case !found.block && caps.Mounter != nil:
				if err = m.cleanSubPaths(found.specName, found.pod); err == nil {
					err = caps.Mounter.TearDown(ctx, found.specName, found.pod)
				}
			}
			if err != nil {
				log.Error(err, "orphaned volume not cleaned up")
			}
			m.orphans.drop(found.pod, func(v *foundVolume) bool { return v == found })
			m.cfg.PodChanged(found.pod)
			m.cleanDevices()
			return nil // it is not retried
		},
	}
}

// cleanDeviceOperation returns the operation that unmounts a device by its path.
func (m *Manager) cleanDeviceOperation(found foundDevice) executor.Operation {
	return executor.Operation{
		Key:  executor.Key{Volume: plugins.UniqueVolumeName(found.caps.Name(), found.path)},
		Name: opUnmountDevice,
		Run: func(ctx context.Context) error {
			log := logr.FromContextOrDiscard(ctx).WithValues("plugin", found.caps.Name(), "path", found.path)
			log.Info("clean up orphaned device mount")
			if found.caps.DeviceMounter == nil {
				return nil
			}
			if err := found.caps.DeviceMounter.UnmountDevice(ctx, found.path); err != nil {
				log.Error(err, "orphaned device mount not cleaned up")
			}
			return nil // it is not retried
		},
	}
}
