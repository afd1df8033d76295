package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/ownership"
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
		return transient(err)
	default:
		device = a.Device
	}
	if err := p.getVolumeName(ctx, spec, options); err != nil {
		return transient(fmt.Errorf("GetVolumeName failed from getDeviceMountPath: %w", err))
	}
	return p.mountAt(path, func() error {
		_, err := p.call(ctx, spec.Name(), callMountDevice, path, device, options)
		if errors.Is(err, errNotSupported) && device != "" {
			return p.format(ctx, spec, device, path)
		}
		return ignoreNotSupported(err)
	})
}

func (p *plugin) format(ctx context.Context, spec *plugins.Spec, device, path string) error {
	v, mode := volumeOf(spec), "rw"
	if v.readOnly {
		mode = "ro"
	}
	return p.cfg.FS.FormatAndMount(ctx, device, path, v.fsType, []string{mode})
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
// it binds what is mounted for the node. Then the files get the group of the pod, unless the volume
// is read-only or the program does that itself (fsGroup is false).
//
// Differs: upstream accepts a program that reports success without any effect, and the pod then
// writes to the node's disk. Upstream's bind mount is writable although the volume is read-only. An
// error of changing the group is returned, and the change is repeated for a volume that is found
// mounted.
//
// Upstream: pkg/volume/flexvolume flexVolumeMounter.SetUpAt (v1.36).
func (p *plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	v, path := volumeOf(spec), p.MountPath(spec, pod.UID)
	if v == nil {
		return errNotFlex
	}
	if err := p.mountAt(path, func() error { return p.mount(ctx, spec, pod, use) }); err != nil {
		return err
	}
	if v.readOnly || use.FSGroup == nil || !p.capabilities.FSGroup {
		return nil
	}
	err := ownership.Change{
		Process: p.cfg.Process, FS: p.cfg.FS, Volume: p.name + "/" + spec.Name(), Dir: path, Pod: pod,
		Group: *use.FSGroup, Policy: use.FSGroupChangePolicy, Recorder: use.Recorder,
	}.Run(ctx)
	if err != nil {
		return uncertain(err)
	}
	return nil
}

// mount mounts the volume at an existing directory of the pod.
func (p *plugin) mount(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	path := p.MountPath(spec, pod.UID)
	further, err := p.podOptions(ctx, spec, pod, use.FSGroup)
	if err != nil {
		return err
	}
	options, err := driverOptions(spec, further)
	if err != nil {
		return err
	}
	_, err = p.call(ctx, spec.Name(), callMount, path, options)
	if err == nil {
		return p.checkContent(callMount, path)
	}
	if !errors.Is(err, errNotSupported) {
		return err
	}
	if options, err = driverOptions(spec, nil); err != nil {
		return err
	}
	if err := p.getVolumeName(ctx, spec, options); err != nil {
		return transient(fmt.Errorf("GetVolumeName failed from getDeviceMountPath: %w", err))
	}
	device, err := p.DeviceMountPath(spec)
	if err == nil {
		err = p.checkContent(callMountDevice, device)
	}
	if err == nil {
		err = p.cfg.FS.BindMount(device, path, volumeOf(spec).readOnly)
	}
	return err
}

// checkContent returns an error if a program that reported success has neither mounted nor written
// anything at path.
func (p *plugin) checkContent(call, path string) error {
	mounted, err := p.cfg.FS.IsMountPoint(path)
	if err != nil || mounted {
		return err
	}
	files, err := p.cfg.FS.ReadDir(path)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s had no effect: nothing is mounted at %s", call, path)
	}
	return err
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
	return plugins.Reconstructed{Spec: p.specOf(specName)}, nil
}

// ReconstructDevices returns the volumes with a directory among the device mounts of the driver.
//
// Differs: upstream finds a device mount only through the directory of a pod.
func (p attachable) ReconstructDevices() ([]plugins.ReconstructedDevice, error) {
	names, err := p.cfg.FS.ReadDir(p.devicesDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list device mounts of %s: %w", p.name, err)
	}
	devices := make([]plugins.ReconstructedDevice, len(names))
	for i, name := range names {
		devices[i] = plugins.ReconstructedDevice{Path: path.Join(p.devicesDir(), name), Spec: p.specOf(name)}
	}
	return devices, nil
}

// specOf returns as much of a volume as its directory tells.
func (p *plugin) specOf(name string) *plugins.Spec {
	return &plugins.Spec{Volume: &corev1.Volume{
		Name:         name,
		VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: p.name}},
	}}
}
