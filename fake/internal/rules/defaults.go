package rules

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// This file sets fields that are empty to their defaults. Defaults are applied at every write,
// including the result of a patch, so an update may omit what the creation omitted. Times lose the
// fraction of a second, as on the wire.
//
// Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/storage/v1/defaults.go.

func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	setIfEmpty(&ns.Status.Phase, corev1.NamespaceActive)
}

func defaultNode(node *corev1.Node) {
	if node.Status.Allocatable == nil && node.Status.Capacity != nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		Truncate(&c.LastHeartbeatTime, &c.LastTransitionTime)
	}
}

func defaultVolume(volume *corev1.PersistentVolume) {
	setIfEmpty(&volume.Status.Phase, corev1.VolumePending)
	setIfEmpty(&volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	setIfNil(&volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	if h := volume.Spec.HostPath; h != nil {
		setIfNil(&h.Type, corev1.HostPathUnset)
	}
	defaultLegacyVolume(&volume.Spec.PersistentVolumeSource)
	Truncate(volume.Status.LastPhaseTransitionTime)
}

// defaultLegacyVolume sets the defaults of the sources that CSI drivers replaced.
func defaultLegacyVolume(source *corev1.PersistentVolumeSource) {
	switch {
	case source.ISCSI != nil:
		setIfEmpty(&source.ISCSI.ISCSIInterface, iscsiInterfaceDefault)
	case source.RBD != nil:
		setIfEmpty(&source.RBD.RBDPool, rbdPoolDefault)
		setIfEmpty(&source.RBD.RadosUser, rbdUserDefault)
		setIfEmpty(&source.RBD.Keyring, rbdKeyringDefault)
	case source.AzureDisk != nil:
		defaultAzureDisk(source.AzureDisk)
	case source.ScaleIO != nil:
		setIfEmpty(&source.ScaleIO.StorageMode, scaleIOModeDefault)
		setIfEmpty(&source.ScaleIO.FSType, scaleIOFSDefault)
	}
}

func defaultAzureDisk(disk *corev1.AzureDiskVolumeSource) {
	setIfNil(&disk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	setIfNil(&disk.Kind, corev1.AzureSharedBlobDisk)
	setIfNil(&disk.FSType, "ext4")
	setIfNil(&disk.ReadOnly, false)
}

const (
	iscsiInterfaceDefault = "default"
	rbdPoolDefault        = "rbd"
	rbdUserDefault        = "admin"
	rbdKeyringDefault     = "/etc/ceph/keyring"
	scaleIOModeDefault    = "ThinProvisioned"
	scaleIOFSDefault      = "xfs"
)

func defaultClaim(claim *corev1.PersistentVolumeClaim) {
	setIfEmpty(&claim.Status.Phase, corev1.ClaimPending)
	setIfNil(&claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	for i := range claim.Status.Conditions {
		c := &claim.Status.Conditions[i]
		Truncate(&c.LastProbeTime, &c.LastTransitionTime)
	}
}

func defaultEvent(event *corev1.Event) { Truncate(&event.FirstTimestamp, &event.LastTimestamp) }

func defaultClass(class *storagev1.StorageClass) {
	setIfNil(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	setIfNil(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultAttachment(attachment *storagev1.VolumeAttachment) {
	for _, e := range []*storagev1.VolumeError{attachment.Status.AttachError, attachment.Status.DetachError} {
		if e != nil {
			Truncate(&e.Time)
		}
	}
}

func defaultDriver(driver *storagev1.CSIDriver) {
	spec := &driver.Spec
	setIfNil(&spec.AttachRequired, true)
	setIfNil(&spec.PodInfoOnMount, false)
	setIfNil(&spec.StorageCapacity, false)
	setIfNil(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	setIfNil(&spec.RequiresRepublish, false)
	setIfNil(&spec.SELinuxMount, false)
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// defaultCSINode drops an empty list of drivers, as the wire does.
func defaultCSINode(node *storagev1.CSINode) {
	if len(node.Spec.Drivers) == 0 {
		node.Spec.Drivers = nil
	}
}

// setIfEmpty sets a field to its default if it has the zero value.
func setIfEmpty[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// setIfNil sets a field to its default if it is nil.
func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
