package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
)

var _ plugins.DeviceReconstructor = (*Plugin)(nil)

// globalMountDir is the name of the directory in which a volume is staged, below the volume's
// directory.
const globalMountDir = "globalmount"

// ReconstructDevices returns the staged volumes from the records next to their mounts. A directory
// without a readable record yields a device without a Spec.
func (p *Plugin) ReconstructDevices() ([]plugins.ReconstructedDevice, error) {
	root := filepath.Join(p.cfg.Root, "plugins", PluginName)
	drivers, err := readDirIfExists(p.cfg.FS, root)
	if err != nil {
		return nil, fmt.Errorf("find staged volumes: %w", err)
	}
	var found []plugins.ReconstructedDevice
	for _, driver := range drivers {
		if driver == volumeDevices {
			blocks, err := p.reconstructBlocks()
			if err != nil {
				return nil, err
			}
			found = append(found, blocks...)
			continue
		}
		volumes, err := readDirIfExists(p.cfg.FS, filepath.Join(root, driver))
		if err != nil {
			return nil, fmt.Errorf("find staged volumes: %w", err)
		}
		for _, volume := range volumes {
			found = append(found, p.stagedDevice(filepath.Join(root, driver, volume)))
		}
	}
	return found, nil
}

// volumeDevices is the directory of block volumes. It is a sibling of the drivers' directories.
const volumeDevices = "volumeDevices"

// stagedDevice returns the volume staged in a directory.
func (p *Plugin) stagedDevice(dir string) plugins.ReconstructedDevice {
	device := plugins.ReconstructedDevice{Path: filepath.Join(dir, globalMountDir)}
	data, err := loadData(p.cfg.FS, dir)
	if err != nil || globalMountPath(p.cfg.Root, data.DriverName, data.VolumeHandle) != device.Path {
		return device
	}
	device.SELinuxLabel = data.SELinuxMountContext
	device.Spec = &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: data.VolumeHandle},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: data.DriverName, VolumeHandle: data.VolumeHandle},
		}},
	}}
	return device
}

// readDirIfExists returns the names in a directory, or none if the directory does not exist.
func readDirIfExists(disk nodefs.Reader, dir string) ([]string, error) {
	names, err := disk.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return names, err
}
