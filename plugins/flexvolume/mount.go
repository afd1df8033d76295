package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// MountDevice waits for the device and makes the program mount it at path. If the program does not
// support the call, it mounts the device itself; without a device there is nothing to mount then.
//
// Upstream: pkg/volume/flexvolume flexVolumeAttacher.WaitForAttach, MountDevice (v1.36).
func (p attachable) MountDevice(ctx context.Context, spec *plugins.Spec, path string, opts plugins.MountOptions) error {
	device := opts.DevicePath
	options, err := driverOptions(spec, nil)
	if err != nil {
		return err
	}
	switch a, err := p.call(ctx, spec.Name(), callWaitForAttach, device, options); {
	case errors.Is(err, errNotSupported):
	case err != nil:
		return &plugins.Error{Class: plugins.Transient, Err: err}
	default:
		device = a.Device
	}
	return p.mountAt(path, func() error {
		_, err := p.call(ctx, spec.Name(), callMountDevice, path, device, options)
		if errors.Is(err, errNotSupported) && device != "" {
			return p.format(ctx, spec, device, path)
		}
		return ignoreNotSupported(err)
	})
}

// A formatter is a disk on which devices can be mounted: that of a real node.
type formatter interface {
	FormatAndMount(ctx context.Context, device, target, fsType string, options []string) error
}

func (p *plugin) format(ctx context.Context, spec *plugins.Spec, device, path string) error {
	disk, ok := p.cfg.FS.(formatter)
	if !ok {
		return fmt.Errorf("device %s cannot be mounted: the node does not support devices", device)
	}
	v, mode := volumeOf(spec), "rw"
	if v.readOnly {
		mode = "ro"
	}
	return disk.FormatAndMount(ctx, device, path, v.fsType, []string{mode})
}

// ignoreNotSupported returns nil for errNotSupported, and err otherwise.
func ignoreNotSupported(err error) error {
	if errors.Is(err, errNotSupported) {
		return nil
	}
	return err
}

// mountAt creates a directory and mounts something there, unless something is mounted already. It
// removes the directory after a final or transient error.
//
// Differs: upstream leaves the directory of a device.
//
// Upstream: pkg/volume/flexvolume prepareForMount (v1.36).
func (p *plugin) mountAt(path string, mount func() error) error {
	mounted, err := p.cfg.FS.IsMountPoint(path)
	if mounted {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = p.cfg.FS.MkdirAll(path)
	}
	if err == nil {
		err = mount()
	}
	if err == nil || plugins.ClassOf(err) == plugins.Uncertain {
		return err
	}
	if removeErr := p.remove(path); removeErr != nil {
		return uncertain(errors.Join(err, removeErr)) // mounted after all
	}
	return err
}

// remove removes a directory, if it exists.
func (p *plugin) remove(path string) error {
	if err := p.cfg.FS.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// UnmountDevice makes the program unmount the device, or unmounts it itself, and removes the
// directory.
//
// Upstream: pkg/volume/flexvolume flexVolumeDetacher.UnmountDevice (v1.36).
func (p attachable) UnmountDevice(ctx context.Context, path string) error {
	mounted, err := p.cfg.FS.IsMountPoint(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case mounted:
		if err := p.unmount(ctx, callUnmountDevice, path); err != nil {
			return err
		}
	}
	return p.remove(path)
}

// unmount makes the program undo a mount, or undoes it itself if the program does not support the
// call.
func (p *plugin) unmount(ctx context.Context, call, path string) error {
	_, err := p.call(ctx, path, call, path)
	if errors.Is(err, errNotSupported) {
		return p.cfg.FS.Unmount(path)
	}
	return err
}

// SetUp makes the program mount the volume for the pod. If the program does not support the call,
// it binds what is mounted for the node.
//
// Differs: upstream's bind mount is writable although the volume is read-only.
//
// Upstream: pkg/volume/flexvolume flexVolumeMounter.SetUpAt (v1.36).
func (p *plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) error {
	options, err := driverOptions(spec, pod)
	if err != nil {
		return err
	}
	if volumeOf(spec).secret {
		return fmt.Errorf("volume %s: secrets are not supported", spec.Name())
	}
	path := p.MountPath(spec, pod.UID)
	return p.mountAt(path, func() error {
		_, err := p.call(ctx, spec.Name(), callMount, path, options)
		if !errors.Is(err, errNotSupported) {
			return err
		}
		device, err := p.DeviceMountPath(spec)
		if err == nil {
			err = p.cfg.FS.BindMount(device, path, volumeOf(spec).readOnly)
		}
		return err
	})
}

// TearDown makes the program undo the mount, or undoes it itself, and removes the directory. For an
// empty directory that is not a mount point the program is not called.
//
// Differs: upstream calls the program even for a mount that was interrupted before it began; many
// programs then always fail.
//
// Upstream: pkg/volume/flexvolume flexVolumeUnmounter.TearDownAt (v1.36).
func (p *plugin) TearDown(ctx context.Context, specName string, pod types.UID) error {
	path := p.mountPath(specName, pod)
	mounted, err := p.cfg.FS.IsMountPoint(path)
	if err == nil && !mounted {
		var files []string
		files, err = p.cfg.FS.ReadDir(path)
		mounted = len(files) > 0
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case mounted:
		if err := p.unmount(ctx, callUnmount, path); err != nil {
			return err
		}
	}
	return p.remove(path)
}

// Reconstruct identifies a volume by its directory. The options that the program received are not
// recorded, and not needed.
//
// Upstream: pkg/volume/flexvolume ConstructVolumeSpec (v1.36).
func (p *plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	exists, err := p.cfg.FS.Exists(p.mountPath(specName, pod))
	if err == nil && !exists {
		err = fs.ErrNotExist
	}
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", specName, err)
	}
	return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{
		Name:         specName,
		VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: p.name}},
	}}}, nil
}
