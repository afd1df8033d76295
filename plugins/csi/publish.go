package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// MountPath is pods/<uid>/volumes/kubernetes.io~csi/<spec name>/mount below the kubelet's root.
func (p *Plugin) MountPath(specName string, pod types.UID) string {
	return filepath.Join(podVolumeDir(p.cfg.Root, pod, specName), "mount")
}

// SetUp publishes the volume for the pod. What is needed to undo it is kept first. A final error of the driver removes it
// again; an uncertain one leaves it for TearDown.
//
// Upstream: pkg/volume/csi csiMountMgr.SetUpAt (v1.36).
func (p *Plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.Use) error {
	source, err := sourceOf(spec)
	if err != nil {
		return err
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return fmt.Errorf("publish volume: %w", err)
	}
	attributes, err := p.attributes(source, pod)
	if err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	publishContext, err := p.publishContext(ctx, spec)
	if err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	staging := ""
	if driver.stages {
		staging = globalMountPath(p.cfg.Root, source.Driver, source.VolumeHandle)
	}
	target := p.MountPath(spec.Name(), pod.UID)
	if err := p.cfg.FS.MkdirAll(filepath.Dir(target)); err != nil {
		return fmt.Errorf("publish volume: %w", err)
	}
	if err := saveData(p.cfg.FS, filepath.Dir(target), p.podData(spec)); err != nil {
		return p.abandon(err, target)
	}
	_, err = driver.client.NodePublishVolume(ctx, &csispec.NodePublishVolumeRequest{
		VolumeId:          source.VolumeHandle,
		PublishContext:    publishContext,
		StagingTargetPath: staging,
		TargetPath:        target,
		VolumeCapability:  driver.capability(spec.PersistentVolume, source.FSType),
		Readonly:          spec.ReadOnly || source.ReadOnly,
		VolumeContext:     attributes,
	})
	if err = classify(err); err != nil && plugins.ClassOf(err) == plugins.Final {
		return p.abandon(err, target)
	}
	return err
}

func (p *Plugin) podData(spec *plugins.Spec) volumeData {
	source := spec.PersistentVolume.Spec.CSI
	return volumeData{
		SpecVolID:           spec.Name(),
		VolumeHandle:        source.VolumeHandle,
		DriverName:          source.Driver,
		NodeName:            string(p.cfg.NodeName),
		AttachmentID:        AttachmentName(source.VolumeHandle, source.Driver, p.cfg.NodeName),
		VolumeLifecycleMode: string(storagev1.VolumeLifecyclePersistent),
	}
}

// attributes are the volume's own, and the pod's where the driver asked for them. A driver that does not serve persistent
// volumes is an error.
func (p *Plugin) attributes(source *corev1.CSIPersistentVolumeSource, pod *corev1.Pod) (map[string]string, error) {
	driver, err := p.csiDriver(source.Driver)
	if err != nil || driver == nil {
		return source.VolumeAttributes, err
	}
	if modes := driver.Spec.VolumeLifecycleModes; len(modes) > 0 && !slices.Contains(modes, storagev1.VolumeLifecyclePersistent) {
		return nil, fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)",
			storagev1.VolumeLifecyclePersistent, source.Driver, modes)
	}
	if driver.Spec.PodInfoOnMount == nil || !*driver.Spec.PodInfoOnMount {
		return source.VolumeAttributes, nil
	}
	attributes := map[string]string{}
	maps.Copy(attributes, source.VolumeAttributes)
	maps.Copy(attributes, map[string]string{
		"csi.storage.k8s.io/pod.name":            pod.Name,
		"csi.storage.k8s.io/pod.namespace":       pod.Namespace,
		"csi.storage.k8s.io/pod.uid":             string(pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": pod.Spec.ServiceAccountName,
		"csi.storage.k8s.io/ephemeral":           "false",
	})
	return attributes, nil
}

// TearDown unpublishes the volume from the pod and removes its directory.
//
// Upstream: pkg/volume/csi csiMountMgr.TearDownAt (v1.36).
func (p *Plugin) TearDown(ctx context.Context, specName string, pod types.UID) error {
	target := p.MountPath(specName, pod)
	data, err := loadData(p.cfg.FS, filepath.Dir(target))
	if errors.Is(err, fs.ErrNotExist) {
		return removeMount(p.cfg.FS, target)
	}
	if err != nil {
		return err
	}
	driver, err := p.driver(data.DriverName)
	if err != nil {
		return fmt.Errorf("unpublish volume: %w", err)
	}
	_, err = driver.client.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{
		VolumeId: data.VolumeHandle, TargetPath: target,
	})
	if err != nil {
		return classify(err)
	}
	return removeMount(p.cfg.FS, target)
}
