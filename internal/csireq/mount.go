package csireq

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/nodefs"
)

// A mountFinder is a file system that finds one mount without listing all.
type mountFinder interface {
	MountAt(name string) (nodefs.Mount, bool, error)
}

// MountAt returns the topmost mount at a path, or false if there is none. Errors are as of
// PathStatus.
func MountAt(node nodefs.Mounter, name string) (nodefs.Mount, bool, error) {
	if finder, ok := node.(mountFinder); ok {
		mount, mounted, err := finder.MountAt(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return mount, mounted, PathStatus(err)
	}
	mounted, err := node.IsMountPoint(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nodefs.Mount{}, false, nil
	}
	if err != nil || !mounted {
		return nodefs.Mount{}, false, PathStatus(err)
	}
	mounts, err := node.Mounts()
	if err != nil {
		return nodefs.Mount{}, false, PathStatus(err)
	}
	var top nodefs.Mount
	for _, mount := range mounts {
		if mount.Path == path.Clean(name) {
			top = mount
		}
	}
	return top, top.Path != "", nil
}

// CheckStaged reports whether a volume, identified by the source of its mounts, is already staged
// at a path, read-only or not as requested. It returns AlreadyExists if something else is mounted
// there.
func CheckStaged(node nodefs.Mounter, name, source string, readOnly bool) (bool, error) {
	mount, mounted, err := MountAt(node, name)
	if err != nil || !mounted {
		return false, err
	}
	if mount.Source != source || mount.ReadOnly != readOnly {
		return false, incompatible(mount)
	}
	return true, nil
}

// Publish implements NodePublishVolume for a checked request: it creates the target directory and
// binds the staged volume, whose mounts have the given source, to it. Repeating it changes nothing.
// Another mount at the target is AlreadyExists. A volume that is not staged is FailedPrecondition,
// and so is a single-writer volume that is published elsewhere.
func Publish(node nodefs.FS, request *csi.NodePublishVolumeRequest, source string) error {
	staging, target := request.GetStagingTargetPath(), request.GetTargetPath()
	staged, ok, err := MountAt(node, staging)
	if err != nil {
		return err
	}
	if !ok || staged.Source != source {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", request.GetVolumeId(), staging)
	}
	readOnly := staged.ReadOnly || request.GetReadonly() || IsReadOnly(request.GetVolumeCapability())
	mount, mounted, err := MountAt(node, target)
	if err != nil {
		return err
	}
	if mounted {
		if mount.Source != source || mount.ReadOnly != readOnly {
			return incompatible(mount)
		}
		return nil
	}
	if err := checkSingleWriter(node, request, func(other nodefs.Mount) (bool, error) {
		return other.Source == source && other.Path != path.Clean(staging), nil
	}); err != nil {
		return err
	}
	if err := node.MkdirAll(target); err != nil {
		return PathStatus(err)
	}
	return PathStatus(node.BindMount(staging, target, readOnly))
}

// checkSingleWriter returns FailedPrecondition if a single-writer volume is published by one of the
// node's mounts.
func checkSingleWriter(
	node nodefs.FS, request *csi.NodePublishVolumeRequest, publishes func(nodefs.Mount) (bool, error),
) error {
	mode := request.GetVolumeCapability().GetAccessMode().GetMode()
	if mode != csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		return nil
	}
	mounts, err := node.Mounts()
	if err != nil {
		return PathStatus(err)
	}
	for _, mount := range mounts {
		other, err := publishes(mount)
		if err != nil {
			return err
		}
		if other {
			return status.Errorf(codes.FailedPrecondition, "volume %s is single-writer and is already published at %s",
				request.GetVolumeId(), mount.Path)
		}
	}
	return nil
}

// Unpublish implements NodeUnpublishVolume: it unmounts the target and removes the directory. It
// succeeds if there is nothing to undo.
func Unpublish(node nodefs.FS, target string) error {
	if err := unmount(node, target); err != nil {
		return err
	}
	if err := node.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return PathStatus(err)
	}
	return nil
}

// unmount unmounts and keeps the directory, which belongs to the caller. It succeeds if nothing is
// mounted.
func unmount(node nodefs.Mounter, name string) error {
	err := node.Unmount(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, nodefs.ErrNotMounted) {
		return nil
	}
	return PathStatus(err)
}

// PathStatus converts an error of a node's file system into a status. A path outside the node, or
// one that the kernel refuses to follow, is InvalidArgument. A busy mount or a directory that is not empty is FailedPrecondition. The end of
// a context has its own code. Anything else is Internal. A status is returned unchanged.
func PathStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, nodefs.ErrOutside), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, nodefs.ErrBusy), errors.Is(err, nodefs.ErrNotEmpty):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}

// NotFoundStatus is PathStatus for a call about a volume that should be at a path. A path outside
// the node is NotFound: the volume cannot be there.
func NotFoundStatus(err error, volumeID, at string) error {
	if err = PathStatus(err); status.Code(err) == codes.InvalidArgument {
		return status.Errorf(codes.NotFound, "volume %s is not at %s: %s", volumeID, at, status.Convert(err).Message())
	}
	return err
}

func incompatible(mount nodefs.Mount) error {
	return status.Errorf(codes.AlreadyExists,
		"%s already has %s mounted, read-only: %v", mount.Path, mount.Source, mount.ReadOnly)
}
