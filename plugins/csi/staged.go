package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/plugins"
)

var _ plugins.DeviceReconstructor = (*Plugin)(nil)

// stagedMount is the name of the directory in which a volume is staged, below that of the volume.
const stagedMount = "globalmount"

// ReconstructDevices finds the volumes that are staged by the data files beside their mounts. A directory without a file that
// can be read is one of which nothing is known.
func (p *Plugin) ReconstructDevices() ([]plugins.ReconstructedDevice, error) {
	root := filepath.Join(p.cfg.Root, "plugins", PluginName)
	drivers, err := namesIn(p.cfg.FS, root)
	if err != nil {
		return nil, fmt.Errorf("find staged volumes: %w", err)
	}
	var found []plugins.ReconstructedDevice
	for _, driver := range drivers {
		if filepath.Join(root, driver) == p.devicesDir() {
			continue
		}
		volumes, err := namesIn(p.cfg.FS, filepath.Join(root, driver))
		if err != nil {
			return nil, fmt.Errorf("find staged volumes: %w", err)
		}
		for _, volume := range volumes {
			found = append(found, p.staged(filepath.Join(root, driver, volume)))
		}
	}
	devices, err := p.stagedBlocks()
	return append(found, devices...), err
}

// stagedBlocks finds the block volumes that are staged by what is kept of each. For which pods they may be published tell the
// nodes of devices in their directories: a pod's own link goes first.
func (p *Plugin) stagedBlocks() ([]plugins.ReconstructedDevice, error) {
	names, err := namesIn(p.cfg.FS, p.devicesDir())
	if err != nil {
		return nil, fmt.Errorf("find staged block volumes: %w", err)
	}
	var found []plugins.ReconstructedDevice
	for _, name := range names {
		if dir := filepath.Join(p.devicesDir(), name); dir == filepath.Dir(p.stagingPath("x")) || dir == filepath.Dir(p.publishDir("x")) {
			continue
		}
		device := plugins.ReconstructedDevice{Path: p.globalMapPath(name), Block: true}
		made, err := p.ReconstructBlock(name, "")
		if err == nil {
			device.Spec = made.Spec
		}
		pods := map[types.UID]bool{}
		for _, dir := range []string{device.Path, p.publishDir(name)} {
			uids, err := namesIn(p.cfg.FS, dir)
			if err != nil {
				return nil, fmt.Errorf("find pods of block volume %s: %w", name, err)
			}
			for _, uid := range uids {
				pods[types.UID(uid)] = true
			}
		}
		device.Pods = slices.Sorted(maps.Keys(pods))
		found = append(found, device)
	}
	return found, nil
}

// staged is the volume of a directory.
func (p *Plugin) staged(dir string) plugins.ReconstructedDevice {
	device := plugins.ReconstructedDevice{Path: filepath.Join(dir, stagedMount)}
	data, err := loadData(p.cfg.FS, dir)
	if err != nil || globalMountPath(p.cfg.Root, data.DriverName, data.VolumeHandle) != device.Path {
		return device
	}
	device.Spec = &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: data.VolumeHandle},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: data.DriverName, VolumeHandle: data.VolumeHandle},
		}},
	}}
	return device
}

// namesIn are the names in a directory; none where there is no such directory.
func namesIn(disk nodefs.FS, dir string) ([]string, error) {
	names, err := disk.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return names, err
}
