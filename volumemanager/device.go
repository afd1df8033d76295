package volumemanager

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// linksMax is the maximum number of symbolic links followed to a device.
const linksMax = 40

// mapDevice maps a device, whose node is at a path, for a pod. It binds the node, links to the path
// and locks the device: while the pod has it, the device cannot disappear and another one take its
// name. It is idempotent. Each of the three calls is a suspension point.
//
// Differs: a node of another device in the volume's directory is an error; upstream accepts it.
//
// Upstream: pkg/volume/util MapBlockVolume (v1.36).
func (m *Manager) mapDevice(at podDevice, device string) error {
	err := m.diskCall("BindDevice", at.volume, func() error { return bindDevice(m.cfg.FS, device, at.node()) })
	if err != nil {
		return fmt.Errorf("blkUtil.MapDevice failed. devicePath: %s, globalMapPath:%s, podUID: %s, bindMount: %v: %w",
			device, at.global, at.pod, true, err)
	}
	err = m.diskCall("LinkDevice", at.volume, func() error { return linkDevice(m.cfg.FS, device, at.linkPath()) })
	if err != nil {
		return fmt.Errorf("blkUtil.MapDevice failed. devicePath: %s, podVolumeMapPath:%s, volumeMapName: %s, bindMount: %v: %w",
			device, at.dir, at.link, false, err)
	}
	err = m.diskCall("LockDevice", at.volume, func() error {
		_, err := m.cfg.FS.LockDevice(at.node())
		return err
	})
	if err != nil {
		return fmt.Errorf("blkUtil.AttachFileDevice failed. globalMapPath:%s, podUID: %s: %w", at.global, at.pod, err)
	}
	return nil
}

// unmapDevice undoes mapDevice in reverse order, except that it removes the link before the node.
// Missing files are no error.
//
// Upstream: pkg/volume/util UnmapBlockVolume (v1.36).
func (m *Manager) unmapDevice(at podDevice) error {
	err := m.diskCall("UnlockDevice", at.volume, func() error { return m.cfg.FS.UnlockDevice(at.node()) })
	if err != nil {
		return fmt.Errorf("blkUtil.DetachFileDevice failed. globalUnmapPath:%s, podUID: %s: %w", at.global, at.pod, err)
	}
	err = m.diskCall("UnlinkDevice", at.volume, func() error { return unlinkDevice(m.cfg.FS, at.linkPath()) })
	if err != nil {
		return fmt.Errorf("blkUtil.DetachFileDevice failed. podDeviceUnmapPath:%s, volumeMapName: %s, bindMount: %v: %w",
			at.dir, at.link, false, err)
	}
	err = m.diskCall("UnbindDevice", at.volume, func() error { return unbindDevice(m.cfg.FS, at.node()) })
	if err != nil {
		return fmt.Errorf("blkUtil.DetachFileDevice failed. globalUnmapPath:%s, podUID: %s, bindMount: %v: %w",
			at.global, at.pod, true, err)
	}
	return nil
}

// diskCall calls do, which accesses the node's disk and may take time. It is a suspension point.
func (m *Manager) diskCall(verb string, volume corev1.UniqueVolumeName, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: string(volume)}
	return m.cfg.Process.Call(action, func() trace.Outcome { return trace.Outcome{Err: do()} }).Err
}

// createDeviceFile creates the file on which the node of a device will be bound.
func createDeviceFile(disk nodefs.Files, file string) error {
	switch _, err := disk.Stat(file); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := disk.MkdirAll(filepath.Dir(file)); err != nil {
		return err
	}
	return disk.WriteFile(file, nil)
}

// bindDevice binds the node of a device to an existing file.
//
// Upstream: pkg/volume/util/volumepathhandler mapBindMountDevice (v1.36).
func bindDevice(disk nodefs.FS, device, file string) error {
	source, err := disk.Stat(device)
	if err != nil {
		return err
	}
	switch target, err := disk.Stat(file); {
	case err != nil:
		return err
	case target.Device != "" && target.Device == source.Device:
		return nil
	case target.Device != "":
		return fmt.Errorf("%s is the device %s, not %s", file, target.Device, source.Device)
	}
	return disk.BindMount(device, file, false)
}

// linkDevice links to the device. It replaces a link that a reboot has made stale.
//
// Upstream: pkg/volume/util/volumepathhandler mapSymlinkDevice (v1.36).
func linkDevice(disk nodefs.Writer, device, link string) error {
	if err := disk.MkdirAll(filepath.Dir(link)); err != nil {
		return err
	}
	if err := disk.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.Symlink(device, link)
}

// unlinkDevice removes a link. It does not remove other files.
//
// Upstream: pkg/volume/util/volumepathhandler unmapSymlinkDevice (v1.36).
func unlinkDevice(disk nodefs.Files, link string) error {
	info, err := disk.Stat(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode.Type() != fs.ModeSymlink:
		return nil
	}
	return disk.Remove(link)
}

// unbindDevice unmounts the node of a device from a file. The file stays.
//
// Upstream: pkg/volume/util/volumepathhandler unmapBindMountDevice (v1.36).
func unbindDevice(disk nodefs.FS, file string) error {
	info, err := disk.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode&fs.ModeDevice == 0 {
		return err
	}
	return disk.Unmount(file)
}

// followLinks returns the target of a path after all symbolic links. The target must exist.
//
// Upstream: pkg/volume/util/hostutil EvalHostSymlinks (v1.36).
func followLinks(disk nodefs.Reader, path string) (string, error) {
	for range linksMax {
		info, err := disk.Stat(path)
		if err != nil || info.Mode.Type() != fs.ModeSymlink {
			return path, err
		}
		target, err := disk.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", fmt.Errorf("path %q has more than %d symbolic links", path, linksMax)
}
