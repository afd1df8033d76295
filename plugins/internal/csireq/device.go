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

// deviceFile is the name that the node of a block volume's device has in the
// directory in which the volume is staged.
const deviceFile = "device"

// StagedDevice is the path of the device's node of a block volume that is staged
// at a path.
func StagedDevice(staging string) string { return path.Join(staging, deviceFile) }

// DeviceAt returns which device the node at a path is of, as nodefs.FS.Stat
// tells it; false if there is no device node, or nothing at all. Errors are as
// of PathStatus.
func DeviceAt(node nodefs.FS, name string) (string, bool, error) {
	info, err := node.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return info.Device, info.Device != "", PathStatus(err)
}

// StageDevice does the work of NodeStageVolume for a block volume: it makes the
// staging directory and the device's node in it, by bind, which makes the node
// visible at an existing file. Doing it again changes nothing; another device,
// or a mount, is AlreadyExists.
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

// PublishDevice does the work of NodePublishVolume for a checked request for a
// block volume: it binds the staged device's node to the target file. Doing it
// again changes nothing; something else at the target is AlreadyExists, a volume
// that is not staged FailedPrecondition, as is one that is published elsewhere
// already and may have a single writer only.
func PublishDevice(node nodefs.FS, request *csi.NodePublishVolumeRequest, device string) error {
	staging, target := request.GetStagingTargetPath(), request.GetTargetPath()
	staged := StagedDevice(staging)
	found, ok, err := DeviceAt(node, staged)
	if err != nil {
		return err
	}
	if !ok || found != device {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not staged as a device at %s", request.GetVolumeId(), staging)
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

// placeDevice makes the device's node be there at a file, which it makes.
func placeDevice(node nodefs.FS, file, device string, bind func(file string) error) error {
	switch found, there, err := DeviceAt(node, file); {
	case err != nil:
		return err
	case there && found != device:
		return status.Errorf(codes.AlreadyExists, "%s is the device %s already", file, found)
	case there:
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

// Unstage does the work of NodeUnstageVolume, which does not say whether the
// volume was staged as a file system or as a device: it takes off the one or the
// other. The directory stays, the caller's. Nothing there is fine.
func Unstage(node nodefs.FS, staging string) error {
	_, mounted, err := MountAt(node, staging)
	if err != nil {
		return err
	}
	if mounted {
		return unmount(node, staging) // what the volume holds is not ours
	}
	return Unpublish(node, StagedDevice(staging))
}
