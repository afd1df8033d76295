package table

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// unset is the cell of a nil field.
const unset = "<unset>"

var volumeColumns = []metav1.TableColumnDefinition{
	name,
	text("Capacity", doc(corev1.PersistentVolumeSpec{}, "capacity")),
	text("Access Modes", doc(corev1.PersistentVolumeSpec{}, "accessModes")),
	text("Reclaim Policy", doc(corev1.PersistentVolumeSpec{}, "persistentVolumeReclaimPolicy")),
	text("Status", doc(corev1.PersistentVolumeStatus{}, "phase")),
	text("Claim", doc(corev1.PersistentVolumeSpec{}, "claimRef")),
	text("StorageClass", "StorageClass of the pv"),
	text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
	text("Reason", doc(corev1.PersistentVolumeStatus{}, "reason")),
	age,
	wide(text("VolumeMode", doc(corev1.PersistentVolumeSpec{}, "volumeMode"))),
}

func volumeCells(v *corev1.PersistentVolume, now clock) []any {
	claim := ""
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	phase := v.Status.Phase
	if v.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	size := v.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		v.Name, size.String(), accessModes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy),
		string(phase), claim,
		classOf(v, v.Spec.StorageClassName), ptr.Deref(v.Spec.VolumeAttributesClassName, unset), v.Status.Reason,
		now.since(v.CreationTimestamp), string(ptr.Deref(v.Spec.VolumeMode, unset)),
	}
}

var claimColumns = []metav1.TableColumnDefinition{
	name,
	text("Status", doc(corev1.PersistentVolumeClaimStatus{}, "phase")),
	text("Volume", doc(corev1.PersistentVolumeClaimSpec{}, "volumeName")),
	text("Capacity", doc(corev1.PersistentVolumeClaimStatus{}, "capacity")),
	text("Access Modes", doc(corev1.PersistentVolumeClaimStatus{}, "accessModes")),
	text("StorageClass", "StorageClass of the pvc"),
	text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
	age,
	wide(text("VolumeMode", doc(corev1.PersistentVolumeClaimSpec{}, "volumeMode"))),
}

func claimCells(c *corev1.PersistentVolumeClaim, now clock) []any {
	phase := c.Status.Phase
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	size, modes := "", ""
	if c.Spec.VolumeName != "" {
		capacity := c.Status.Capacity[corev1.ResourceStorage]
		size, modes = capacity.String(), accessModes(c.Status.AccessModes)
	}
	return []any{
		c.Name, string(phase), c.Spec.VolumeName, size, modes, classOf(c, ptr.Deref(c.Spec.StorageClassName, "")),
		ptr.Deref(c.Spec.VolumeAttributesClassName, unset), now.since(c.CreationTimestamp),
		string(ptr.Deref(c.Spec.VolumeMode, unset)),
	}
}

// accessModes abbreviates access modes, in a fixed order.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var all []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		for _, mode := range modes {
			if mode == m.mode {
				all = append(all, m.short)
				break
			}
		}
	}
	return strings.Join(all, ",")
}

// classOf returns the class of a claim or a volume. The deprecated annotation takes precedence.
func classOf(obj metav1.Object, spec string) string {
	if class, ok := obj.GetAnnotations()[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return spec
}

var classColumns = []metav1.TableColumnDefinition{
	name,
	text("Provisioner", doc(storagev1.StorageClass{}, "provisioner")),
	text("ReclaimPolicy", doc(storagev1.StorageClass{}, "reclaimPolicy")),
	text("VolumeBindingMode", doc(storagev1.StorageClass{}, "volumeBindingMode")),
	text("AllowVolumeExpansion", doc(storagev1.StorageClass{}, "allowVolumeExpansion")),
	age,
}

func classCells(c *storagev1.StorageClass, now clock) []any {
	name := c.Name
	if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
		name += " (default)"
	}
	return []any{
		name, c.Provisioner, string(ptr.Deref(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)),
		string(ptr.Deref(c.VolumeBindingMode, storagev1.VolumeBindingImmediate)),
		ptr.Deref(c.AllowVolumeExpansion, false),
		now.since(c.CreationTimestamp),
	}
}

var attachmentColumns = []metav1.TableColumnDefinition{
	name,
	{Name: "Attacher", Type: "string", Format: "name", Description: doc(storagev1.VolumeAttachmentSpec{}, "attacher")},
	text("PV", doc(storagev1.VolumeAttachmentSource{}, "persistentVolumeName")),
	text("Node", doc(storagev1.VolumeAttachmentSpec{}, "nodeName")),
	yesNo("Attached", doc(storagev1.VolumeAttachmentStatus{}, "attached")),
	age,
}

func attachmentCells(a *storagev1.VolumeAttachment, now clock) []any {
	return []any{
		a.Name, a.Spec.Attacher, ptr.Deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached,
		now.since(a.CreationTimestamp),
	}
}

var driverColumns = []metav1.TableColumnDefinition{
	name,
	yesNo("AttachRequired", doc(storagev1.CSIDriverSpec{}, "attachRequired")),
	yesNo("PodInfoOnMount", doc(storagev1.CSIDriverSpec{}, "podInfoOnMount")),
	yesNo("StorageCapacity", doc(storagev1.CSIDriverSpec{}, "storageCapacity")),
	text("TokenRequests", doc(storagev1.CSIDriverSpec{}, "tokenRequests")),
	yesNo("RequiresRepublish", doc(storagev1.CSIDriverSpec{}, "requiresRepublish")),
	text("Modes", doc(storagev1.CSIDriverSpec{}, "volumeLifecycleModes")),
	age,
}

func driverCells(d *storagev1.CSIDriver, now clock) []any {
	tokens := unset
	if d.Spec.TokenRequests != nil {
		var audiences []string
		for _, t := range d.Spec.TokenRequests {
			audiences = append(audiences, t.Audience)
		}
		tokens = strings.Join(audiences, ",")
	}
	var modes []string
	for _, m := range d.Spec.VolumeLifecycleModes {
		modes = append(modes, string(m))
	}
	return []any{
		d.Name, ptr.Deref(d.Spec.AttachRequired, true), ptr.Deref(d.Spec.PodInfoOnMount, false),
		ptr.Deref(d.Spec.StorageCapacity, false),
		tokens, ptr.Deref(d.Spec.RequiresRepublish, false), valueOr(strings.Join(modes, ","), none),
		now.since(d.CreationTimestamp),
	}
}

var csiNodeColumns = []metav1.TableColumnDefinition{
	name, number("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), age,
}

func csiNodeCells(n *storagev1.CSINode, now clock) []any {
	return []any{n.Name, int64(len(n.Spec.Drivers)), now.since(n.CreationTimestamp)}
}

var attributesColumns = []metav1.TableColumnDefinition{
	name, text("DriverName", doc(storagev1.VolumeAttributesClass{}, "driverName")), age,
}

func attributesCells(c *storagev1.VolumeAttributesClass, now clock) []any {
	return []any{c.Name, c.DriverName, now.since(c.CreationTimestamp)}
}
