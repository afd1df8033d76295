package addiff

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
)

const driverName = "disk.example.com"

// A disk is a volume and its claim, of the same name.
type disk struct {
	name, handle string
	mode         corev1.PersistentVolumeAccessMode
	late         bool // initially not bound
}

// disks are the initial disks of a world.
var disks = []disk{
	{name: "rwo1", handle: "rwo1", mode: corev1.ReadWriteOnce},
	{name: "rwo2", handle: "rwo2", mode: corev1.ReadWriteOnce},
	{name: "rwx", handle: "rwx", mode: corev1.ReadWriteMany},
	{name: "rwop", handle: "rwop", mode: corev1.ReadWriteOncePod},
	{name: "late", handle: "late", mode: corev1.ReadWriteOnce, late: true},
	{name: "odd", handle: "odd^1", mode: corev1.ReadWriteOnce},
}

func diskOf(name string) disk {
	for _, d := range disks {
		if d.name == name {
			return d
		}
	}
	panic("no disk " + name)
}

// shared reports whether the volume may be attached to several nodes.
func (d disk) shared() bool { return d.mode == corev1.ReadWriteMany }

func (d disk) unique() corev1.UniqueVolumeName {
	return plugins.UniqueVolumeName(csi.PluginName, csi.VolumeName(driverName, d.handle))
}

var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

func (d disk) claim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: "default"}}
	c.Spec.AccessModes, c.Spec.Resources.Requests = []corev1.PersistentVolumeAccessMode{d.mode}, size
	c.Spec.StorageClassName, c.Spec.VolumeName = new(""), d.name
	return c
}

func (d disk) volume(claim types.UID) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
	v.Spec.AccessModes, v.Spec.Capacity = []corev1.PersistentVolumeAccessMode{d.mode}, size
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: d.handle}
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: d.name, UID: claim}
	return v
}

// bindClaim creates a claim and its volume, unless they exist, and binds them.
type bindClaim struct{ disk string }

func (b bindClaim) String() string { return "bind " + b.disk }

func (b bindClaim) do(w *world) error {
	d := diskOf(b.disk)
	claim, ok := stored[*corev1.PersistentVolumeClaim](w, "persistentvolumeclaims", "default", d.name)
	if !ok {
		var err error
		if claim, err = w.client.CoreV1().PersistentVolumeClaims("default").Create(ctx, d.claim(), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := w.bindVolume(d, claim.UID); err != nil {
		return err
	}
	if claim.Status.Phase == corev1.ClaimBound {
		return nil
	}
	claim.Status.Phase = corev1.ClaimBound
	_, err := w.client.CoreV1().PersistentVolumeClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// bindVolume creates a disk's volume, unless it exists, and reserves it for a claim.
func (w *world) bindVolume(d disk, claim types.UID) error {
	volume, ok := stored[*corev1.PersistentVolume](w, "persistentvolumes", "", d.name)
	if !ok {
		_, err := w.client.CoreV1().PersistentVolumes().Create(ctx, d.volume(claim), metav1.CreateOptions{})
		return err
	}
	if volume.Spec.ClaimRef.UID == claim {
		return nil
	}
	volume.Spec.ClaimRef.UID = claim
	_, err := w.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	return err
}

// deleteClaim deletes a claim, even if pods use it.
type deleteClaim struct{ disk string }

func (d deleteClaim) String() string { return "claim " + d.disk + " is deleted" }

func (d deleteClaim) do(w *world) error {
	claims := w.client.CoreV1().PersistentVolumeClaims("default")
	claim, ok := stored[*corev1.PersistentVolumeClaim](w, "persistentvolumeclaims", "default", d.disk)
	if !ok {
		return nil
	}
	claim.Finalizers = nil
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return claims.Delete(ctx, d.disk, metav1.DeleteOptions{})
}

// deleteVolume deletes a volume, even if it is attached.
type deleteVolume struct{ disk string }

func (d deleteVolume) String() string { return "volume " + d.disk + " is deleted" }

func (d deleteVolume) do(w *world) error {
	volumes := w.client.CoreV1().PersistentVolumes()
	volume, ok := stored[*corev1.PersistentVolume](w, "persistentvolumes", "", d.disk)
	if !ok {
		return nil
	}
	volume.Finalizers = nil
	if _, err := volumes.Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return volumes.Delete(ctx, d.disk, metav1.DeleteOptions{})
}

// setDriver replaces the driver's CSIDriver object.
type setDriver struct{ attach string } // "required", "not required", or "" (no object)

func (d setDriver) String() string {
	if d.attach == "" {
		return "driver has no CSIDriver object"
	}
	return "driver: attach " + d.attach
}

func (d setDriver) do(w *world) error {
	drivers := w.client.StorageV1().CSIDrivers()
	old, ok := stored[*storagev1.CSIDriver](w, "csidrivers", "", driverName)
	required := d.attach == "required"
	if ok && d.attach != "" && *old.Spec.AttachRequired == required {
		return nil
	}
	if ok {
		if err := drivers.Delete(ctx, driverName, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	if d.attach == "" {
		return nil
	}
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}
	object.Spec.AttachRequired = &required
	_, err := drivers.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// attachRequired reports whether the driver requires attachments.
func (w *world) attachRequired() bool {
	d, ok := stored[*storagev1.CSIDriver](w, "csidrivers", "", driverName)
	return !ok || *d.Spec.AttachRequired
}

// createObjects creates two nodes and the disks.
func (w *world) createObjects() error {
	for _, n := range []string{"n1", "n2"} {
		if err := (createNode{node: n}).do(w); err != nil {
			return err
		}
	}
	for _, d := range disks {
		if !d.late {
			if err := (bindClaim{d.name}).do(w); err != nil {
				return err
			}
			continue
		}
		if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Create(ctx, d.claim(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("claim %s: %w", d.name, err)
		}
	}
	return nil
}
