package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// The directories of a pod in which there is a directory for each plugin, and in that one for each volume.
const (
	mountsDir  = "volumes"
	devicesDir = "volumeDevices"
)

// foundVolume is a directory of a pod's volume, as it stands on the disk.
type foundVolume struct {
	pod      types.UID
	plugin   string
	specName string
	block    bool
	why      error // it could not be reconstructed
	cleaned  bool  // that was begun; see cleanRemains
}

// reconstruct finds on the disk what the kubelet before this one mounted, or may have. All of it may be mounted, or not: a node
// that has booted has the directories and no mount. It does nothing once it has succeeded.
//
// Differs: what is mounted for the node is found where no pod names it any more, too; see plugins.DeviceReconstructor. Where the
// disk cannot be read, that is tried again before anything is reported or taken away; upstream goes on without.
//
// Upstream: pkg/kubelet/volumemanager/reconciler reconstructVolumes, updateStates (v1.36).
func (m *Manager) reconstruct() error {
	if m.scanned || m.cfg.FS == nil {
		return nil
	}
	volumes, err := m.scan()
	if err != nil {
		return fmt.Errorf("find the volumes of pods on the disk: %w", err)
	}
	type list struct {
		caps    plugins.Capabilities
		devices []plugins.ReconstructedDevice
	}
	var lists []list
	for _, caps := range m.cfg.Plugins.All() {
		if caps.DeviceReconstructor == nil {
			continue
		}
		devices, err := caps.DeviceReconstructor.ReconstructDevices()
		if err != nil {
			return fmt.Errorf("find the devices of plugin %s on the disk: %w", caps.Name(), err)
		}
		lists = append(lists, list{caps, devices})
	}
	m.scanned = true
	for _, v := range volumes {
		if v.why = m.addFoundVolume(v); v.why != nil {
			m.orphans.add(&v)
		}
	}
	for _, l := range lists {
		for _, device := range l.devices {
			m.addFoundDevice(l.caps, device)
		}
	}
	return nil
}

// scan lists the directories of pods' volumes, sorted by path.
//
// Upstream: pkg/kubelet/volumemanager/reconciler getVolumesFromPodDir (v1.36).
func (m *Manager) scan() ([]foundVolume, error) {
	var found []foundVolume
	root := filepath.Join(m.cfg.Root, "pods")
	pods, err := m.namesIn(root)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		for _, kind := range []string{mountsDir, devicesDir} {
			dir := filepath.Join(root, pod, kind)
			escaped, err := m.namesIn(dir)
			if err != nil {
				return nil, err
			}
			for _, plugin := range escaped {
				names, err := m.namesIn(filepath.Join(dir, plugin))
				if err != nil {
					return nil, err
				}
				for _, name := range names {
					found = append(found, foundVolume{
						pod: types.UID(pod), plugin: plugins.UnescapePluginName(plugin), specName: name, block: kind == devicesDir,
					})
				}
			}
		}
	}
	return found, nil
}

// namesIn are the names in a directory; none where it is no directory.
func (m *Manager) namesIn(dir string) ([]string, error) {
	names, err := m.cfg.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return names, err
}

// addFoundVolume enters a volume of a pod into the actual state. The error says why it cannot be told which volume it is.
//
// Upstream: pkg/kubelet/volumemanager/reconciler reconstructVolume (v1.36).
func (m *Manager) addFoundVolume(found foundVolume) error {
	caps, err := m.cfg.Plugins.FindByName(found.plugin)
	if err != nil {
		return err
	}
	made, err := reconstructed(caps, found)
	if err != nil {
		return err
	}
	deviceMountable, err := caps.DeviceMountable(made.Spec)
	if err != nil {
		return err
	}
	attachable := mayAttach(caps, made.Spec)
	name, err := uniqueName(caps, made.Spec, found.pod, attachable || deviceMountable)
	if err != nil {
		return err
	}
	path, err := deviceMountPoint(caps, made.Spec, found.block, deviceMountable)
	if err != nil {
		return err
	}
	v := m.actual.found(name, caps, made.Spec, found.block)
	v.foundLabel(made.SELinuxLabel)
	v.attachable = attachable
	if path != "" {
		v.setFoundDevice(path)
	}
	m.actual.foundMount(v, found.pod, found.specName)
	return nil
}

func reconstructed(caps plugins.Capabilities, found foundVolume) (plugins.Reconstructed, error) {
	switch {
	case found.block && caps.BlockReconstructor != nil:
		return caps.BlockReconstructor.ReconstructBlock(found.specName, found.pod)
	case !found.block && caps.Reconstructor != nil:
		return caps.Reconstructor.Reconstruct(found.specName, found.pod)
	default:
		return plugins.Reconstructed{}, fmt.Errorf("plugin %s does not reconstruct volumes", caps.Name())
	}
}

// deviceMountPoint is where a volume is mounted for the node, or mapped; "" for one that is not.
func deviceMountPoint(caps plugins.Capabilities, spec *plugins.Spec, block, deviceMountable bool) (string, error) {
	switch {
	case block:
		return caps.BlockPaths.GlobalMapPath(spec)
	case deviceMountable:
		return caps.DeviceMounter.DeviceMountPath(spec)
	default:
		return "", nil
	}
}

// mayAttach tells whether a volume that was found may be attached: what cannot be told may be.
func mayAttach(caps plugins.Capabilities, spec *plugins.Spec) bool {
	attachable, err := caps.Attachable(spec)
	return attachable || err != nil
}

// addFoundDevice enters a volume that is mounted or prepared for the node into the actual state.
func (m *Manager) addFoundDevice(caps plugins.Capabilities, found plugins.ReconstructedDevice) {
	if found.Spec == nil {
		m.orphans.devices = append(m.orphans.devices, foundDevice{caps, found.Path})
		return
	}
	name, err := uniqueName(caps, found.Spec, "", true)
	if err != nil {
		m.orphans.devices = append(m.orphans.devices, foundDevice{caps, found.Path})
		return
	}
	v := m.actual.found(name, caps, found.Spec, found.Block)
	v.attachable = v.attachable || mayAttach(caps, found.Spec)
	v.foundLabel(found.SELinuxLabel)
	v.setFoundDevice(found.Path)
	for _, pod := range found.Pods {
		m.actual.foundMount(v, pod, found.Spec.Name())
	}
}

// found is the volume of a name, as it was found on the disk.
func (a *actualState) found(name corev1.UniqueVolumeName, caps plugins.Capabilities, spec *plugins.Spec, block bool) *actualVolume {
	v, known := a.volumes[name]
	if !known {
		v = &actualVolume{
			name: name, caps: caps, spec: spec, block: block, reconstructed: true, pods: map[types.UID]*actualMount{},
		}
		a.volumes[name] = v
	}
	return v
}

// setFoundDevice notes that a volume may be mounted for the node, unless that is known better.
func (v *actualVolume) setFoundDevice(path string) {
	if v.device == notMounted && v.reconstructed {
		v.device, v.mountPath, v.deviceReconstructed = mountUncertain, path, true
	}
}

// foundMount notes that a pod may have a volume, unless that is known better.
func (a *actualState) foundMount(v *actualVolume, pod types.UID, specName string) {
	if _, known := v.pods[pod]; known {
		return
	}
	v.pods[pod] = &actualMount{specName: specName, state: mountUncertain, reconstructed: true}
	a.podVolumes[pod] = append(a.podVolumes[pod], v)
}

// finishReconstruction finds out of what was found on the disk what could not be told before there was a Node, and caches.
//
// Differs: a volume that the Node does not list as attached counts as attachable, and so as in use, if volumes of its kind are.
// For upstream it is not attachable: the controller, which takes a volume from the list before it looks whether it is in use,
// then detaches what is mounted.
//
// Upstream: pkg/kubelet/volumemanager/reconciler updateReconstructedFromNodeStatus (v1.36).
func (m *Manager) finishReconstruction() {
	for name, v := range m.actual.volumes {
		if !v.reconstructed {
			continue
		}
		path, listed := m.devicePath(name)
		if listed {
			v.devicePath = path
		}
		v.attachable = listed || mayAttach(v.caps, v.spec)
	}
}

// ReconstructedPods are the pods of which something was found on the disk when the kubelet began, and is not known to be gone, sorted.
func (m *Manager) ReconstructedPods() []types.UID {
	pods := map[types.UID]bool{}
	for _, v := range m.actual.volumes {
		for uid, have := range v.pods {
			if have.reconstructed {
				pods[uid] = true
			}
		}
	}
	for uid := range m.orphans.volumes {
		pods[uid] = true
	}
	return slices.Sorted(maps.Keys(pods))
}
