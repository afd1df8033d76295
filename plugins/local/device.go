package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// defaultFSType is the file system that a device gets without a type.
const defaultFSType = "ext4"

// errKind has upstream's text.
var errKind = errors.New("only directory and block device are supported")

// isBlockDevice reports whether there is a block device at the volume's path, and not a directory.
//
// Upstream: pkg/volume/local getGlobalLocalPath, pkg/volume/util/hostutil GetFileType (v1.36).
func (p *Plugin) isBlockDevice(spec *plugins.Spec) (bool, error) {
	if !p.CanSupport(spec) || spec.PersistentVolume.Spec.Local.Path == "" {
		return false, errors.New("local volume source is nil or local path is not set")
	}
	name := spec.PersistentVolume.Spec.Local.Path
	info, err := p.cfg.Machine.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("path %q does not exist", name)
	case err != nil:
		return false, err
	case info.Mode.IsDir():
		return false, nil
	case info.Mode.Type() == fs.ModeDevice:
		return true, nil
	default:
		return false, errKind
	}
}

// mountsDir is the directory below which the file systems of devices are mounted.
func (p *Plugin) mountsDir() string { return path.Join(p.cfg.Machine.Root, "plugins", Name, "mounts") }

// CanDeviceMount reports whether the volume is mounted for the node: always, although there is
// nothing to do for a directory.
func (p *Plugin) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

// DeviceMountPath returns the volume's directory. For a block device it returns
// plugins/kubernetes.io/local-volume/mounts/<volume> below the kubelet's root, and also for a
// reconstructed volume whose path is unknown.
//
// Upstream: pkg/volume/local getGlobalLocalPath (v1.36).
func (p *Plugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	if at := path.Join(p.mountsDir(), spec.Name()); p.CanSupport(spec) && spec.PersistentVolume.Spec.Local.Path == "" {
		return at, nil
	} else if isDevice, err := p.isBlockDevice(spec); err != nil {
		return "", err
	} else if isDevice {
		return at, nil
	}
	return p.cfg.Machine.Path(spec.PersistentVolume.Spec.Local.Path), nil
}

// MountDevice mounts the file system on a block device. The device is formatted if it has none. For
// a directory there is nothing to do.
//
// Upstream: pkg/volume/local deviceMounter.MountDevice, mountLocalBlockDevice (v1.36).
func (p *Plugin) MountDevice(ctx context.Context, spec *plugins.Spec, at string, _ plugins.MountOptions) error {
	isDevice, err := p.isBlockDevice(spec)
	if err != nil || !isDevice {
		return err
	}
	source, disk := spec.PersistentVolume.Spec.Local, p.cfg.Machine.FS
	if mounted, err := disk.IsMountPoint(at); mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fsType, options := defaultFSType, mountOptions(spec)
	if source.FSType != nil {
		fsType = *source.FSType
	}
	if spec.ReadOnly && !slices.Contains(options, "ro") {
		options = append(options, "ro")
	}
	return p.call("MountDevice", spec.Name(), at, func() error {
		if err := disk.MkdirAll(at); err != nil {
			return err
		}
		if err := disk.FormatAndMount(ctx, p.cfg.Machine.Path(source.Path), at, fsType, options); err != nil {
			_ = disk.Remove(at) // as upstream, which logs a failure
			return fmt.Errorf("local: failed to mount device %s at %s (fstype: %s), error %w", source.Path, at, fsType, err)
		}
		return nil
	})
}

// mountOptions returns the mount options of a PersistentVolume, sorted.
//
// Upstream: pkg/volume/util MountOptionFromSpec, JoinMountOptions (v1.36).
func mountOptions(spec *plugins.Spec) []string {
	volume := spec.PersistentVolume
	options := slices.Clone(volume.Spec.MountOptions)
	if annotated, ok := volume.Annotations[corev1.MountOptionAnnotation]; ok {
		options = strings.Split(annotated, ",")
	}
	options = slices.DeleteFunc(options, func(option string) bool { return option == "" })
	slices.Sort(options)
	return slices.Compact(options)
}

// UnmountDevice unmounts the file system of a block device and removes its mount point. A directory
// stays as it is.
//
// Upstream: pkg/volume/local deviceMounter.UnmountDevice (v1.36).
func (p *Plugin) UnmountDevice(_ context.Context, at string) error {
	if path.Dir(at) != p.mountsDir() {
		return nil
	}
	return p.cleanMountPoint("UnmountDevice", path.Base(at), at)
}

// cleanMountPoint unmounts what is mounted at a path, and removes the directory. A missing path is
// no error.
//
// Upstream: k8s.io/mount-utils CleanupMountPoint (v0.36).
func (p *Plugin) cleanMountPoint(verb, volume, at string) error {
	disk := p.cfg.Machine.FS
	if there, err := disk.Exists(at); err != nil || !there {
		return err
	}
	return p.call(verb, volume, at, func() error {
		if mounted, err := disk.IsMountPoint(at); err != nil {
			return err
		} else if mounted {
			if err := disk.Unmount(at); err != nil {
				return err
			}
		}
		return disk.Remove(at)
	})
}

// RequiresFSResize reports whether volumes are expanded on the node: they are.
func (p *Plugin) RequiresFSResize() bool { return true }

// NodeExpand grows the file system on a block device to the size of the device. For a directory, and
// for a raw device, there is nothing to do.
//
// Upstream: pkg/volume/local NodeExpand (v1.36).
func (p *Plugin) NodeExpand(ctx context.Context, opts plugins.ExpandOptions) error {
	if isBlock(opts.Spec) {
		return nil
	}
	isDevice, err := p.isBlockDevice(opts.Spec)
	if err != nil || !isDevice {
		return err
	}
	at, err := p.DeviceMountPath(opts.Spec)
	if err != nil {
		return err
	}
	return p.call("NodeExpand", opts.Spec.Name(), at, func() error {
		return p.cfg.Machine.FS.Grow(ctx, p.cfg.Machine.Path(opts.Spec.PersistentVolume.Spec.Local.Path), at)
	})
}

func isBlock(spec *plugins.Spec) bool {
	mode := spec.PersistentVolume.Spec.VolumeMode
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}
