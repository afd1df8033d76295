package csi

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// CanDeviceMount reports whether the volume is staged for the node: a PersistentVolume is, an
// inline volume is not.
//
// Upstream: pkg/volume/csi csiPlugin.CanDeviceMount (v1.36).
func (p *Plugin) CanDeviceMount(spec *plugins.Spec) (bool, error) {
	if inlineSource(spec) != nil {
		return false, nil
	}
	_, err := sourceOf(spec)
	return err == nil, err
}

// DeviceMountPath returns plugins/kubernetes.io/csi/<driver>/<sha256 of handle>/globalmount below
// the kubelet's root.
func (p *Plugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	source, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	return globalMountPath(p.cfg.Root, source.Driver, source.VolumeHandle), nil
}

// MountDevice stages the volume at path if the driver stages volumes. It first records what is
// needed to undo that next to path. A final error removes the record; an uncertain one leaves it
// for UnmountDevice. If the volume was staged before, an error changes nothing.
//
// Differs: for a driver that does not stage, nothing is left on disk; upstream creates a directory
// that is never removed. A final error for a volume that is mounted after all is uncertain;
// upstream forgets the volume.
//
// Upstream: pkg/volume/csi csiAttacher.MountDevice (v1.36).
func (p *Plugin) MountDevice(ctx context.Context, spec *plugins.Spec, path string, opts plugins.MountOptions) error {
	source, err := sourceOf(spec)
	if err != nil {
		return errorf("attacher.MountDevice failed to get CSIPersistentVolumeSource: %w", err)
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return errorf("attacher.MountDevice failed to create newCsiDriverClient: %w", err)
	}
	if !driver.stages {
		return nil
	}
	request, label, err := p.stageRequest(ctx, driver, spec, path, opts)
	if err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	if err := p.cfg.FS.MkdirAll(path); err != nil {
		return errorf("attacher.MountDevice failed to create dir %q:  %w", path, err)
	}
	data := volumeData{DriverName: source.Driver, VolumeHandle: source.VolumeHandle, SELinuxMountContext: label}
	if err := saveData(p.cfg.FS, filepath.Dir(path), data); err != nil {
		return p.abandon(errorf("%w", err), path, opts)
	}
	_, err = driver.client.NodeStageVolume(ctx, request)
	return p.abandon(classify(err), path, opts)
}

// stageRequest returns the driver's request, and the SELinux label to mount with.
func (p *Plugin) stageRequest(
	ctx context.Context, driver *nodeDriver, spec *plugins.Spec, path string, opts plugins.MountOptions,
) (request *csispec.NodeStageVolumeRequest, label string, err error) {
	source := spec.PersistentVolume.Spec.CSI
	info, err := p.csiDriver(source.Driver)
	if err != nil {
		return nil, "", err
	}
	publishContext, err := p.publishContext(ctx, spec)
	if err != nil {
		return nil, "", err
	}
	secrets, err := p.secrets(ctx, "NodeStageSecretRef", source.NodeStageSecretRef)
	if err != nil {
		return nil, "", err
	}
	label = mountLabel(info, opts)
	return &csispec.NodeStageVolumeRequest{
		VolumeId:          source.VolumeHandle,
		PublishContext:    publishContext,
		StagingTargetPath: path,
		VolumeCapability:  driver.mountCapability(spec.PersistentVolume, source.FSType, label, opts.FSGroup),
		Secrets:           secrets,
		VolumeContext:     source.VolumeAttributes,
	}, label, nil
}

// abandon removes what a failed mount has left at path and next to it, and returns the error. If
// something cannot be removed, because it is mounted after all, the error is uncertain, so that the
// caller retries. An error that is not final, and any error for a volume that was mounted before,
// leaves everything as it is.
func (p *Plugin) abandon(err error, path string, opts plugins.MountOptions) error {
	if err == nil || plugins.ClassOf(err) != plugins.Final || opts.Remount || opts.Reconstructed {
		return err
	}
	if removeErr := removeMount(p.cfg.FS, path); removeErr != nil {
		return &plugins.Error{Class: plugins.Uncertain, Err: errors.Join(err, removeErr)}
	}
	return err
}

// UnmountDevice unstages the volume staged at path and removes the path.
//
// Differs: if the record is lost, a mount that still exists is an error, and a bare directory is
// removed; upstream reports success in both cases and leaves them.
//
// Upstream: pkg/volume/csi csiAttacher.UnmountDevice (v1.36).
func (p *Plugin) UnmountDevice(ctx context.Context, path string) error {
	data, err := loadData(p.cfg.FS, filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return removeMount(p.cfg.FS, path)
	}
	if err != nil {
		return err
	}
	driver, err := p.driver(data.DriverName)
	if err != nil {
		return errorf("attacher.UnmountDevice failed to create newCsiDriverClient: %w", err)
	}
	if driver.stages {
		_, err := driver.client.NodeUnstageVolume(ctx, &csispec.NodeUnstageVolumeRequest{
			VolumeId: data.VolumeHandle, StagingTargetPath: path,
		})
		if err != nil {
			return classify(err)
		}
	}
	return removeMount(p.cfg.FS, path)
}

// mountCapability is filesystemCapability with an SELinux label, and with the files' group if the
// driver changes it.
func (d *nodeDriver) mountCapability(
	volume *corev1.PersistentVolume, fsType, label string, group *int64,
) *csispec.VolumeCapability {
	c := d.filesystemCapability(volume, fsType)
	mount := c.GetMount()
	mount.MountFlags = withSELinuxLabel(mount.MountFlags, label)
	if d.mountGroup && group != nil {
		mount.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	return c
}

// filesystemCapability returns the capability that describes the use of a PersistentVolume to the
// driver; nil is an inline volume. Only the first access mode counts.
//
// Upstream: pkg/volume/csi asCSIAccessMode (v1.36).
func (d *nodeDriver) filesystemCapability(volume *corev1.PersistentVolume, fsType string) *csispec.VolumeCapability {
	mount := &csispec.VolumeCapability_MountVolume{FsType: fsType}
	if volume != nil {
		mount.MountFlags = volume.Spec.MountOptions
	}
	return &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: d.accessMode(volume)},
		AccessType: &csispec.VolumeCapability_Mount{Mount: mount},
	}
}

func (d *nodeDriver) accessMode(volume *corev1.PersistentVolume) csispec.VolumeCapability_AccessMode_Mode {
	mode := corev1.ReadWriteOnce
	if volume != nil && len(volume.Spec.AccessModes) > 0 {
		mode = volume.Spec.AccessModes[0]
	}
	switch {
	case mode == corev1.ReadOnlyMany:
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == corev1.ReadWriteMany:
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == corev1.ReadWriteOncePod && d.multiWriter:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case d.multiWriter:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	default:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	}
}
