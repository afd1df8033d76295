package csireq

import (
	"errors"
	"io/fs"
	"path"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/nodefs"
)

// deviceFile is the name of the device's node in the directory in which a block volume is staged.
const deviceFile = "device"

// StagedDevice returns the path of the device's node of a block volume that is staged at a path.
func StagedDevice(staging string) string { return path.Join(staging, deviceFile) }

// DeviceAt returns the device of the node at a path, as in nodefs.Info. It returns false if there
// is no device node, or nothing at all. Errors are as of PathStatus.
func DeviceAt(node nodefs.Reader, name string) (string, bool, error) {
	info, err := node.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return info.Device, info.Device != "", PathStatus(err)
}

// StageDevice implements NodeStageVolume for a block volume. It creates the staging directory, and
// in it the device's node by calling bind, which binds the device to an existing file. Repeating it
// changes nothing. Another device, or a mount, is AlreadyExists.
func StageDevice(node nodefs.FS, staging, device string, bind func(file string) error) error {
	mount, mounted, err := MountAt(node, staging)
	if err != nil {
		return err
	}
	if mounted {
		return incompatible(mount)
	}
	if err := node.MkdirAll(staging); err != nil {
		return PathStatus(err)
	}
	return placeDevice(node, StagedDevice(staging), device, bind)
}

// PublishDevice implements NodePublishVolume for a checked request for a block volume: it binds the
// staged device's node to the target file. Repeating it changes nothing. Something else at the
// target is AlreadyExists. A volume that is not staged is FailedPrecondition, and so is a
// single-writer volume that is published elsewhere.
func PublishDevice(node nodefs.FS, request *csi.NodePublishVolumeRequest, device string) error {
	staging, target := request.GetStagingTargetPath(), request.GetTargetPath()
	staged := StagedDevice(staging)
	found, ok, err := DeviceAt(node, staged)
	if err != nil {
		return err
	}
	if !ok || found != device {
		return status.Errorf(codes.FailedPrecondition,
			"volume %s is not staged as a device at %s", request.GetVolumeId(),
			staging)
	}
	readOnly := request.GetReadonly() || IsReadOnly(request.GetVolumeCapability())
	mount, mounted, err := MountAt(node, target)
	if err != nil {
		return err
	}
	if mounted && mount.ReadOnly != readOnly {
		return incompatible(mount)
	}
	if err := checkSingleWriter(node, request, func(other nodefs.Mount) (bool, error) {
		if other.Path == path.Clean(staged) || other.Path == path.Clean(target) {
			return false, nil
		}
		found, _, err := DeviceAt(node, other.Path)
		return found == device, err
	}); err != nil {
		return err
	}
	return placeDevice(node, target, device, func(file string) error { return node.BindMount(staged, file, readOnly) })
}

// placeDevice binds the device to a file, which it creates if necessary.
func placeDevice(node nodefs.FS, file, device string, bind func(file string) error) error {
	switch found, exists, err := DeviceAt(node, file); {
	case err != nil:
		return err
	case exists && found != device:
		return status.Errorf(codes.AlreadyExists, "%s is already the device %s", file, found)
	case exists:
		return nil
	}
	mount, mounted, err := MountAt(node, file)
	if err != nil {
		return err
	}
	if mounted {
		return incompatible(mount)
	}
	exists, err := node.Exists(file)
	if err == nil && !exists {
		err = node.WriteFile(file, nil)
	}
	if err == nil {
		err = bind(file)
	}
	return PathStatus(err)
}

// Unstage implements NodeUnstageVolume, whose request does not tell whether the volume was staged
// as a file system or as a device: it removes either. The directory belongs to the caller and
// stays. It succeeds if nothing is staged.
func Unstage(node nodefs.FS, staging string) error {
	_, mounted, err := MountAt(node, staging)
	if err != nil {
		return err
	}
	if mounted {
		return unmount(node, staging) // keep the content of the volume
	}
	return Unpublish(node, StagedDevice(staging))
}
