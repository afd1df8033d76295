package rules

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// What a field holds that was left open. Defaults are applied to every object that is written, also to the outcome of a
// patch, so that an update may leave open what the creation left open. Times lose what the wire would not carry.
//
// Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/storage/v1/defaults.go.

func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	fill(&ns.Status.Phase, corev1.NamespaceActive)
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
	fill(&volume.Status.Phase, corev1.VolumePending)
	fill(&volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	set(&volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	if h := volume.Spec.HostPath; h != nil {
		set(&h.Type, corev1.HostPathUnset)
	}
	defaultOldVolume(&volume.Spec.PersistentVolumeSource)
	Truncate(volume.Status.LastPhaseTransitionTime)
}

// defaultOldVolume fills in sources that drivers took the place of.
func defaultOldVolume(source *corev1.PersistentVolumeSource) {
	switch {
	case source.ISCSI != nil:
		fill(&source.ISCSI.ISCSIInterface, iscsiInterfaceDefault)
	case source.RBD != nil:
		fill(&source.RBD.RBDPool, rbdPoolDefault)
		fill(&source.RBD.RadosUser, rbdUserDefault)
		fill(&source.RBD.Keyring, rbdKeyringDefault)
	case source.AzureDisk != nil:
		defaultAzureDisk(source.AzureDisk)
	case source.ScaleIO != nil:
		fill(&source.ScaleIO.StorageMode, scaleIOModeDefault)
		fill(&source.ScaleIO.FSType, scaleIOFSDefault)
	}
}

func defaultAzureDisk(disk *corev1.AzureDiskVolumeSource) {
	set(&disk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	set(&disk.Kind, corev1.AzureSharedBlobDisk)
	set(&disk.FSType, "ext4")
	set(&disk.ReadOnly, false)
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
	fill(&claim.Status.Phase, corev1.ClaimPending)
	set(&claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	for i := range claim.Status.Conditions {
		c := &claim.Status.Conditions[i]
		Truncate(&c.LastProbeTime, &c.LastTransitionTime)
	}
}

func defaultEvent(event *corev1.Event) { Truncate(&event.FirstTimestamp, &event.LastTimestamp) }

func defaultClass(class *storagev1.StorageClass) {
	set(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	set(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
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
	set(&spec.AttachRequired, true)
	set(&spec.PodInfoOnMount, false)
	set(&spec.StorageCapacity, false)
	set(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	set(&spec.RequiresRepublish, false)
	set(&spec.SELinuxMount, false)
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// defaultCSINode forgets a list without drivers, as the wire does.
func defaultCSINode(node *storagev1.CSINode) {
	if len(node.Spec.Drivers) == 0 {
		node.Spec.Drivers = nil
	}
}

// fill gives a field its default if it is empty.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// set gives a field its default if it is nil.
func set[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
