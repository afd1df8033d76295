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

const (
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
	foreignFinalizer = "example.com/mine"
)

// A spec holds the common fields of claims and volumes.
type spec struct {
	size  int // GiB
	modes string
	block bool
	vac   string
}

func (w spec) words() []string {
	words := []string{fmt.Sprintf("%dGi", w.size), w.modes}
	if w.block {
		words = append(words, "block")
	}
	if w.vac != "" {
		words = append(words, "attributes="+w.vac)
	}
	return words
}

func (w spec) quantity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: gi(w.size)}
}

func gi(size int) resource.Quantity { return resource.MustParse(fmt.Sprintf("%dGi", size)) }

func (w spec) volumeMode() *corev1.PersistentVolumeMode {
	if w.block {
		return new(corev1.PersistentVolumeBlock)
	}
	return nil
}

func (w spec) attributes() *string {
	if w.vac == "" {
		return nil
	}
	return &w.vac
}

// accessModes parses "RWO,ROX".
func accessModes(short string) []corev1.PersistentVolumeAccessMode {
	var modes []corev1.PersistentVolumeAccessMode
	for s := range strings.SplitSeq(short, ",") {
		modes = append(modes, map[string]corev1.PersistentVolumeAccessMode{
			"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany, "RWOP": corev1.ReadWriteOncePod,
		}[s])
	}
	return modes
}

// createClaim creates a claim.
type createClaim struct {
	key key
	spec
	class     string // "-": none
	beta      string // class in the beta annotation; "": none
	selector  string // required label "disk" of the volume; "": any
	volume    string // spec.volumeName
	marks     string // annotations of the controller: "completed", "by-controller"
	finalizer bool
	source    bool // it has another claim as its data source
}

func (m createClaim) String() string {
	words := append([]string{"claim", string(m.key)}, m.words()...)
	if m.class != "-" {
		words = append(words, fmt.Sprintf("class=%q", m.class))
	}
	for _, w := range []struct{ name, value string }{
		{"beta-class", m.beta}, {"selector", m.selector}, {"volume", m.volume}, {"marks", m.marks},
	} {
		if w.value != "" {
			words = append(words, w.name+"="+w.value)
		}
	}
	if m.finalizer {
		words = append(words, "finalizer")
	}
	if m.source {
		words = append(words, "copy")
	}
	return strings.Join(words, " ")
}

func (m createClaim) do(w *world) error {
	namespace, name := m.key.split()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.AccessModes, c.Spec.Resources.Requests = accessModes(m.modes), m.quantity()
	c.Spec.VolumeMode, c.Spec.VolumeAttributesClassName = m.volumeMode(), m.attributes()
	c.Spec.VolumeName = m.volume
	if m.class != "-" {
		c.Spec.StorageClassName = &m.class
	}
	if m.beta != "" {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, corev1.BetaStorageClassAnnotation, m.beta)
	}
	if m.selector != "" {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": m.selector}}
	}
	for mark := range strings.SplitSeq(m.marks, ",") {
		if mark != "" {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, marks[mark], "yes")
		}
	}
	if m.source {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "c9"}
	}
	if m.finalizer {
		c.Finalizers = []string{foreignFinalizer}
	}
	_, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, c, metav1.CreateOptions{})
	return err
}

// marks are the annotations that the controller writes.
var marks = map[string]string{
	"completed": storagehelpers.AnnBindCompleted, "by-controller": storagehelpers.AnnBoundByController,
}

// deleteClaim deletes a claim. The claim exists, being deleted, until it has no finalizers.
type deleteClaim struct {
	key       key
	protected bool // keep the protection finalizer, as while a pod uses the claim
}

func (d deleteClaim) String() string {
	return "delete claim " + string(d.key) + protection(d.protected)
}

func protection(protected bool) string {
	if protected {
		return ", protected"
	}
	return ""
}

func (d deleteClaim) do(w *world) error {
	c, ok := w.claim(d.key)
	if !ok {
		return nil
	}
	if !d.protected && slices.Contains(c.Finalizers, claimProtection) {
		c.Finalizers = without(c.Finalizers, claimProtection)
		if err := w.updateClaim(c); err != nil {
			return err
		}
		if c, ok = w.claim(d.key); !ok {
			return nil // it was being deleted
		}
	}
	return w.client.CoreV1().PersistentVolumeClaims(c.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{})
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// editClaim changes a claim.
type editClaim struct {
	key   key
	edit  string // key of claimEdits
	value string // new value, if the edit takes one
}

func (e editClaim) String() string {
	return strings.TrimSpace(fmt.Sprintf("edit claim %s: %s %s", e.key, e.edit, e.value))
}

// claimEdits change claims. Edits of the status use UpdateStatus.
var claimEdits = map[string]func(c *corev1.PersistentVolumeClaim, value string){
	"forget completed":     func(c *corev1.PersistentVolumeClaim, _ string) { delete(c.Annotations, marks["completed"]) },
	"forget by-controller": func(c *corev1.PersistentVolumeClaim, _ string) { delete(c.Annotations, marks["by-controller"]) },
	"mark completed": func(c *corev1.PersistentVolumeClaim, _ string) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, marks["completed"], "yes")
	},
	"mark by-controller": func(c *corev1.PersistentVolumeClaim, _ string) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, marks["by-controller"], "yes")
	},
	"volume":     func(c *corev1.PersistentVolumeClaim, value string) { c.Spec.VolumeName = value },
	"class":      func(c *corev1.PersistentVolumeClaim, value string) { c.Spec.StorageClassName = &value },
	"attributes": func(c *corev1.PersistentVolumeClaim, value string) { c.Spec.VolumeAttributesClassName = &value },
	"label":      func(c *corev1.PersistentVolumeClaim, _ string) { c.Labels = map[string]string{"seen": "yes"} },
	"unprotect":  func(c *corev1.PersistentVolumeClaim, _ string) { c.Finalizers = without(c.Finalizers, claimProtection) },
	"unfinalize": func(c *corev1.PersistentVolumeClaim, _ string) {
		c.Finalizers = without(c.Finalizers, foreignFinalizer)
	},
	"select node": func(c *corev1.PersistentVolumeClaim, _ string) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnSelectedNode, "n1")
	},
	"select no node": func(c *corev1.PersistentVolumeClaim, _ string) {
		delete(c.Annotations, storagehelpers.AnnSelectedNode)
	},
	"forget provisioner": func(c *corev1.PersistentVolumeClaim, _ string) {
		delete(c.Annotations, storagehelpers.AnnStorageProvisioner)
		delete(c.Annotations, storagehelpers.AnnBetaStorageProvisioner)
	},
	"provisioner": func(c *corev1.PersistentVolumeClaim, value string) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnStorageProvisioner, value)
	},
	"status phase": func(c *corev1.PersistentVolumeClaim, value string) {
		c.Status.Phase = corev1.PersistentVolumeClaimPhase(value)
	},
	"status size": func(c *corev1.PersistentVolumeClaim, value string) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(value)}
	},
	"status modes": func(c *corev1.PersistentVolumeClaim, value string) { c.Status.AccessModes = accessModes(value) },
	"status attributes": func(c *corev1.PersistentVolumeClaim, value string) {
		c.Status.CurrentVolumeAttributesClassName = &value
	},
}

func (e editClaim) do(w *world) error {
	c, ok := w.claim(e.key)
	if !ok {
		return nil
	}
	claimEdits[e.edit](c, e.value)
	if strings.HasPrefix(e.edit, "status ") {
		_, err := w.client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	}
	return w.updateClaim(c)
}
