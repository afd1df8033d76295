package volumemanager

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// remains is what was found on the disk of which it cannot be told which volume it is.
type remains struct {
	volumes []*foundVolume
	devices []foundDevice
}

// foundDevice is a place at which a volume may be mounted for the node.
type foundDevice struct {
	caps plugins.Capabilities
	path string
}

// cleanRemains takes away, once, what could not be reconstructed and nobody wants. What a pod may want waits until it has it, or
// is gone. What fails stays on the disk.
//
// Differs: upstream forgets what a pod wants at that moment, and does not clean up what was mounted for the node.
//
// Upstream: pkg/kubelet/volumemanager/reconciler cleanOrphanVolumes, cleanupMounts (v1.36).
func (m *Manager) cleanRemains() {
	if !m.ready {
		return
	}
	m.remains.volumes = slices.DeleteFunc(m.remains.volumes, func(v *foundVolume) bool { return m.actual.has(v.pod, v.specName) })
	for _, v := range m.remains.volumes {
		if m.desired.pods[v.pod] == nil && !v.cleaned {
			v.cleaned = true
			m.start(m.cleanOperation(v))
		}
	}
	for _, d := range m.remains.devices {
		if !m.wantsDevice(d.path) {
			m.start(m.cleanDeviceOperation(d))
		}
	}
	m.remains.devices = nil
}

// ofPod tells whether there may be something of a pod that has not been cleaned up.
func (r *remains) ofPod(pod types.UID) bool {
	return slices.ContainsFunc(r.volumes, func(v *foundVolume) bool { return v.pod == pod })
}

// has tells whether a pod has a volume of a name.
func (a *actualState) has(pod types.UID, specName string) bool {
	for _, v := range a.volumes {
		if have := v.pods[pod]; have != nil && have.specName == specName {
			return true
		}
	}
	return false
}

// wantsDevice tells whether a volume is, or is to be, mounted for the node at a path.
func (m *Manager) wantsDevice(path string) bool {
	for _, v := range m.desired.volumes {
		at, err := devicePlace(v.caps, v.anySpec(), v.block, v.deviceMountable)
		if err != nil || at == path {
			return true
		}
	}
	for _, v := range m.actual.volumes {
		if v.mountPath == path {
			return true
		}
	}
	return false
}

// cleanOperation undoes by its path whatever was done for a pod. What a plugin that there is not has left stays.
func (m *Manager) cleanOperation(found *foundVolume) executor.Operation {
	return executor.Operation{
		Key:  executor.Key{Volume: plugins.UniquePodVolumeName(found.plugin, found.specName, found.pod), Pod: found.pod},
		Name: executor.Unmount,
		Run: func(ctx context.Context) error {
			log := logr.FromContextOrDiscard(ctx).WithValues("pod", found.pod, "plugin", found.plugin, "volume", found.specName)
			log.Info("clean up what could not be reconstructed", "why", found.why.Error())
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
				log.Error(err, "what could not be reconstructed is left")
			}
			m.remains.volumes = slices.DeleteFunc(m.remains.volumes, func(v *foundVolume) bool { return v == found })
			m.cfg.PodChanged(found.pod)
			return nil // it is done once
		},
	}
}

// cleanDeviceOperation undoes by its path whatever was done for the node.
func (m *Manager) cleanDeviceOperation(found foundDevice) executor.Operation {
	return executor.Operation{
		Key:  executor.Key{Volume: plugins.UniqueVolumeName(found.caps.Name(), found.path)},
		Name: executor.UnmountDevice,
		Run: func(ctx context.Context) error {
			log := logr.FromContextOrDiscard(ctx).WithValues("plugin", found.caps.Name(), "path", found.path)
			log.Info("clean up what is mounted for the node, and nobody knows of")
			if found.caps.DeviceMounter == nil {
				return nil
			}
			if err := found.caps.DeviceMounter.UnmountDevice(ctx, found.path); err != nil {
				log.Error(err, "what is mounted for the node is left")
			}
			return nil // it is done once
		},
	}
}
