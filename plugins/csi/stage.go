package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// CanDeviceMount tells whether the volume is staged for the node: always, for a PersistentVolume.
func (p *Plugin) CanDeviceMount(spec *plugins.Spec) (bool, error) {
	_, err := sourceOf(spec)
	return err == nil, err
}

// DeviceMountPath is plugins/kubernetes.io/csi/<driver>/<sha256 of handle>/globalmount below the kubelet's root.
func (p *Plugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	source, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	return globalMountPath(p.cfg.Root, source.Driver, source.VolumeHandle), nil
}

// MountDevice stages the volume at path, where the driver stages at all. What is needed to undo it is kept beside path
// first; a final error removes it again, an uncertain one leaves it for UnmountDevice.
//
// Differs: for a driver that does not stage, nothing is left on disk; upstream makes a directory that nobody removes. A
// final error after an uncertain one removes what that one left; upstream leaves what was there before.
//
// Upstream: pkg/volume/csi csiAttacher.MountDevice (v1.36).
func (p *Plugin) MountDevice(ctx context.Context, spec *plugins.Spec, path string, _ plugins.Use) error {
	source, err := sourceOf(spec)
	if err != nil {
		return err
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return fmt.Errorf("stage volume: %w", err)
	}
	if !driver.stages {
		return nil
	}
	publishContext, err := p.publishContext(ctx, spec)
	if err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	if err := p.cfg.FS.MkdirAll(path); err != nil {
		return fmt.Errorf("stage volume: %w", err)
	}
	data := volumeData{DriverName: source.Driver, VolumeHandle: source.VolumeHandle}
	if err := saveData(p.cfg.FS, filepath.Dir(path), data); err != nil {
		return p.abandon(err, path)
	}
	_, err = driver.client.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{
		VolumeId:          source.VolumeHandle,
		PublishContext:    publishContext,
		StagingTargetPath: path,
		VolumeCapability:  driver.capability(spec.PersistentVolume, source.FSType),
		VolumeContext:     source.VolumeAttributes,
	})
	if err = classify(err); err != nil && plugins.ClassOf(err) == plugins.Final {
		return p.abandon(err, path)
	}
	return err
}

// abandon removes what a mount that failed for good has left at path and beside it, and returns the error. When something
// cannot be removed, because it is mounted after all, the error is uncertain: somebody has to come back for it.
func (p *Plugin) abandon(err error, path string) error {
	if left := removeMount(p.cfg.FS, path); left != nil {
		return &plugins.Error{Class: plugins.Uncertain, Err: errors.Join(err, left)}
	}
	return err
}

// UnmountDevice unstages the volume staged at path and removes the path.
//
// Differs: where the data file is lost, a mount that is still there is an error, and a bare directory is removed; upstream
// reports success in both cases and leaves them.
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
		return fmt.Errorf("unstage volume: %w", err)
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

// capability describes to the driver how a volume will be used. Only the first access mode counts.
//
// Upstream: pkg/volume/csi asCSIAccessMode (v1.36).
func (d *nodeDriver) capability(volume *corev1.PersistentVolume, fsType string) *csispec.VolumeCapability {
	return &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: d.accessMode(volume)},
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{
			FsType: fsType, MountFlags: volume.Spec.MountOptions,
		}},
	}
}

func (d *nodeDriver) accessMode(volume *corev1.PersistentVolume) csispec.VolumeCapability_AccessMode_Mode {
	mode := corev1.ReadWriteOnce
	if len(volume.Spec.AccessModes) > 0 {
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
