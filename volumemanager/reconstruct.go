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
	"k8s.io/apimachinery/pkg/util/sets"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/subpath"
)

// The directories of a pod that contain a directory for each plugin, which contains one for each
// volume.
const (
	mountsDir  = "volumes"
	devicesDir = "volumeDevices"
)

// A foundVolume is a directory of a pod's volume on the disk.
type foundVolume struct {
	pod      types.UID
	plugin   string
	specName string
	block    bool
	why      error // why it could not be reconstructed
	cleaned  bool  // its cleanup has started; see cleanOrphans
}

// reconstruct finds on the disk what an earlier kubelet mounted, or may have. All of it is
// uncertain: after a reboot the directories exist without mounts. It does nothing once it has
// succeeded.
//
// Differs: device mounts are found also if no pod refers to them; see plugins.DeviceReconstructor.
// If the disk cannot be read, it is retried before anything is reported or unmounted; upstream
// continues without.
//
// Upstream: pkg/kubelet/volumemanager/reconciler reconstructVolumes, updateStates (v1.36).
func (m *Manager) reconstruct() error {
	if m.scanned || m.cfg.FS == nil {
		return nil
	}
	volumes, err := m.scan()
	if err != nil {
		return fmt.Errorf("reconstruct volumes of pods: %w", err)
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
			return fmt.Errorf("reconstruct devices of plugin %s: %w", caps.Name(), err)
		}
		lists = append(lists, list{caps, devices})
	}
	m.scanned = true
	for _, v := range volumes {
		if v.why = m.addFoundVolume(v); v.why != nil {
			m.orphans.add(&v)
		}
	}
	m.late.scanned = sets.New[string]()
	for _, l := range lists {
		m.late.scanned.Insert(l.caps.Name())
		for _, device := range l.devices {
			m.addFoundDevice(l.caps, device)
		}
	}
	return nil
}

// scan returns the directories of pods' volumes, sorted by path. For each pod follow the volumes of
// which only subPaths are mounted: those are hostPath volumes, which have no directory for a pod.
//
// Differs: upstream does not find these. If the pod is deleted while the kubelet does not run, the
// subPaths stay bound, and the pod's directory stays.
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
		first := len(found)
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
						pod: types.UID(pod), plugin: utilstrings.UnescapeQualifiedName(plugin),
						specName: name, block: kind == devicesDir,
					})
				}
			}
		}
		names, err := m.volumesWithSubPaths(filepath.Join(root, pod, subpath.Dir))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !slices.ContainsFunc(found[first:], func(v foundVolume) bool { return v.specName == name }) {
				found = append(found, foundVolume{pod: types.UID(pod), plugin: hostpath.Name, specName: name})
			}
		}
	}
	return found, nil
}

// volumesWithSubPaths returns the volumes of which subPaths are mounted below a directory.
func (m *Manager) volumesWithSubPaths(dir string) ([]string, error) {
	volumes, err := m.namesIn(dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(volumes, func(volume string) bool {
		return !m.mountedBelow(filepath.Join(dir, volume), 2) // a directory for each container
	}), nil
}

// mountedBelow reports whether something is mounted at a depth below a directory.
func (m *Manager) mountedBelow(dir string, depth int) bool {
	if depth == 0 {
		mounted, err := m.cfg.FS.IsMountPoint(dir)
		return err == nil && mounted
	}
	names, err := m.namesIn(dir)
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		return m.mountedBelow(filepath.Join(dir, name), depth-1)
	})
}

// namesIn returns the names in a directory; none if it is not a directory.
func (m *Manager) namesIn(dir string) ([]string, error) {
	names, err := m.cfg.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return names, err
}

// addFoundVolume adds a volume of a pod to the actual state. It fails if the volume cannot be
// identified.
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

// deviceMountPoint returns where a volume is mounted or mapped for the node; "" if it is not.
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

// mayAttach reports whether a found volume may be attached; true if unknown.
func mayAttach(caps plugins.Capabilities, spec *plugins.Spec) bool {
	attachable, err := caps.Attachable(spec)
	return attachable || err != nil
}

// addFoundDevice adds a volume that is mounted or mapped for the node to the actual state.
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

// found returns the volume of a name, added if it is new.
func (a *actualState) found(name corev1.UniqueVolumeName, caps plugins.Capabilities,
	spec *plugins.Spec, block bool,
) *actualVolume {
	v, known := a.volumes[name]
	if !known {
		v = &actualVolume{
			name: name, caps: caps, spec: spec, block: block, reconstructed: true, pods: map[types.UID]*actualMount{},
		}
		a.volumes[name] = v
	}
	return v
}

// setFoundDevice marks a volume's device mount as uncertain, unless its state is known.
func (v *actualVolume) setFoundDevice(path string) {
	if v.device == notMounted && v.reconstructed {
		v.device, v.mountPath, v.deviceReconstructed = mountUncertain, path, true
	}
}

// foundMount marks a pod's mount as uncertain, unless its state is known.
func (a *actualState) foundMount(v *actualVolume, pod types.UID, specName string) {
	if _, known := v.pods[pod]; known {
		return
	}
	v.pods[pod] = &actualMount{specName: specName, state: mountUncertain, reconstructed: true}
	a.podVolumes[pod] = append(a.podVolumes[pod], v)
}

// finishReconstruction completes the found volumes with what is known only with a Node and caches.
//
// Differs: a volume that the Node does not list as attached counts as attachable, and so as in use,
// if its plugin says so. For upstream it is not attachable: the controller removes a volume from
// the list before it checks whether it is in use, and then detaches a mounted volume.
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

// ReconstructedPods returns the pods with volumes found on the disk at the start and not known to
// be gone, sorted.
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
