package pvdiff

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// A reservation is a volume's claimRef.
type reservation struct {
	claim key    // "": no claimRef
	by    string // "name", "uid" (of the claim, if it exists), "stale" (of a deleted claim)
}

func (r reservation) String() string {
	if r.claim == "" {
		return "no claim"
	}
	return fmt.Sprintf("%s by %s", r.claim, r.by)
}

func (r reservation) ref(w *world) *corev1.ObjectReference {
	if r.claim == "" {
		return nil
	}
	namespace, name := r.claim.split()
	ref := &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: name}
	switch r.by {
	case "stale":
		ref.UID = "of-a-deleted-claim"
	case "uid":
		if c, ok := w.claim(r.claim); ok {
			ref.UID = c.UID
		}
	}
	return ref
}

// createVolume creates a volume.
type createVolume struct {
	key key
	spec
	class        string
	label        string // label "disk"
	policy       corev1.PersistentVolumeReclaimPolicy
	source       string // "csi", "hostPath" or "nfs"
	reserved     reservation
	provisioner  string // value of the annotation; "": none
	byController bool   // the claimRef is marked as the controller's
	finalizer    bool
}

func (m createVolume) String() string {
	words := append([]string{"volume", string(m.key)}, m.words()...)
	words = append(words, string(m.policy), m.source)
	for _, w := range []struct{ name, value string }{
		{"class", m.class}, {"label", m.label}, {"provisioned-by", m.provisioner},
	} {
		if w.value != "" {
			words = append(words, w.name+"="+w.value)
		}
	}
	if m.reserved.claim != "" {
		words = append(words, "for "+m.reserved.String())
	}
	if m.byController {
		words = append(words, "by-controller")
	}
	if m.finalizer {
		words = append(words, "finalizer")
	}
	return strings.Join(words, " ")
}

func (m createVolume) do(w *world) error {
	_, name := m.key.split()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes, v.Spec.Capacity = accessModes(m.modes), m.quantity()
	v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName = m.volumeMode(), m.attributes()
	v.Spec.StorageClassName, v.Spec.PersistentVolumeReclaimPolicy = m.class, m.policy
	v.Spec.ClaimRef = m.reserved.ref(w)
	switch m.source {
	case "csi":
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}
	case "nfs":
		v.Spec.NFS = &corev1.NFSVolumeSource{Server: "files.example.com", Path: "/" + name}
	default:
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + name}
	}
	if m.label != "" {
		v.Labels = map[string]string{"disk": m.label}
	}
	if m.provisioner != "" {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, m.provisioner)
	}
	if m.byController {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnBoundByController, "yes")
	}
	if m.finalizer {
		v.Finalizers = []string{foreignFinalizer}
	}
	_, err := w.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	return err
}

// deleteVolume deletes a volume. The volume exists, being deleted, until it has no finalizers.
type deleteVolume struct {
	key       key
	protected bool
}

func (d deleteVolume) String() string {
	return "delete volume " + string(d.key) + protection(d.protected)
}

func (d deleteVolume) do(w *world) error {
	v, ok := w.volume(d.key)
	if !ok {
		return nil
	}
	if !d.protected && slices.Contains(v.Finalizers, volumeProtection) {
		v.Finalizers = without(v.Finalizers, volumeProtection)
		if err := w.updateVolume(v); err != nil {
			return err
		}
		if v, ok = w.volume(d.key); !ok {
			return nil // it was being deleted
		}
	}
	return w.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
}

// editVolume changes a volume.
type editVolume struct {
	key   key
	edit  string // key of volumeEdits
	value string // new value, if the edit takes one
}

func (e editVolume) String() string {
	return strings.TrimSpace(fmt.Sprintf("edit volume %s: %s %s", e.key, e.edit, e.value))
}

// volumeEdits change volumes. Edits of the status use UpdateStatus.
var volumeEdits = map[string]func(v *corev1.PersistentVolume, value string){
	"free": func(v *corev1.PersistentVolume, _ string) { v.Spec.ClaimRef = nil },
	"forget uid": func(v *corev1.PersistentVolume, _ string) {
		if v.Spec.ClaimRef != nil {
			v.Spec.ClaimRef.UID = ""
		}
	},
	"forget by-controller": func(v *corev1.PersistentVolume, _ string) { delete(v.Annotations, marks["by-controller"]) },
	"mark by-controller": func(v *corev1.PersistentVolume, _ string) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, marks["by-controller"], "yes")
	},
	"policy": func(v *corev1.PersistentVolume, value string) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(value)
	},
	"class": func(v *corev1.PersistentVolume, value string) { v.Spec.StorageClassName = value },
	"label": func(v *corev1.PersistentVolume, value string) { v.Labels = map[string]string{"disk": value} },
	"modes": func(v *corev1.PersistentVolume, value string) { v.Spec.AccessModes = accessModes(value) },
	"size": func(v *corev1.PersistentVolume, value string) {
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(value)}
	},
	"attributes": func(v *corev1.PersistentVolume, value string) { v.Spec.VolumeAttributesClassName = &value },
	"unprotect":  func(v *corev1.PersistentVolume, _ string) { v.Finalizers = without(v.Finalizers, volumeProtection) },
	"unfinalize": func(v *corev1.PersistentVolume, _ string) { v.Finalizers = without(v.Finalizers, foreignFinalizer) },
	"provisioner": func(v *corev1.PersistentVolume, value string) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, value)
	},
	"finalizer": func(v *corev1.PersistentVolume, value string) { v.Finalizers = append(v.Finalizers, value) },
	"migrated-to": func(v *corev1.PersistentVolume, value string) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnMigratedTo, value)
	},
	"size before": func(v *corev1.PersistentVolume, value string) {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, "volume.alpha.kubernetes.io/pre-resize-capacity", value)
	},
	"status phase": func(v *corev1.PersistentVolume, value string) {
		v.Status.Phase = corev1.PersistentVolumePhase(value)
	},
}

func (e editVolume) do(w *world) error {
	v, ok := w.volume(e.key)
	if !ok {
		return nil
	}
	volumeEdits[e.edit](v, e.value)
	if strings.HasPrefix(e.edit, "status ") {
		_, err := w.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, v, metav1.UpdateOptions{})
		return err
	}
	return w.updateVolume(v)
}

// reserveVolume changes a volume's claimRef, as an administrator or the scheduler.
type reserveVolume struct {
	key key
	reservation
	scheduler bool // also mark it as the controller's, as the scheduler does
}

func (r reserveVolume) String() string {
	text := fmt.Sprintf("reserve volume %s for %s", r.key, r.reservation)
	if r.scheduler {
		text += ", by-controller"
	}
	return text
}

func (r reserveVolume) do(w *world) error {
	v, ok := w.volume(r.key)
	if !ok {
		return nil
	}
	v.Spec.ClaimRef = r.ref(w)
	if r.scheduler {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, marks["by-controller"], "yes")
	}
	return w.updateVolume(v)
}

// provisionVolume creates a volume for a claim, as an external provisioner, if the claim names one.
type provisionVolume struct{ volume, claim key }

func (p provisionVolume) String() string {
	return fmt.Sprintf("provision %s for %s", p.volume, p.claim)
}

func (p provisionVolume) do(w *world) error {
	c, ok := w.claim(p.claim)
	if !ok || c.Annotations[storagehelpers.AnnStorageProvisioner] == "" {
		return nil
	}
	_, name := p.volume.split()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes, v.Spec.Capacity = c.Spec.AccessModes, c.Spec.Resources.Requests
	v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName = c.Spec.VolumeMode, c.Spec.VolumeAttributesClassName
	v.Spec.StorageClassName = storagehelpers.GetPersistentVolumeClaimClass(c)
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}
	v.Spec.ClaimRef = reservation{p.claim, "uid"}.ref(w)
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, c.Annotations[storagehelpers.AnnStorageProvisioner])
	_, err := w.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	return err
}
