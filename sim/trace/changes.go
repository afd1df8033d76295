package trace

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Changes returns what a write changed, in words and in a fixed order. It covers only the fields
// that matter for volumes. before is nil for a create. The result is empty if both are nil.
func Changes(before, after runtime.Object) []string {
	if after == nil {
		return nil
	}
	was, is := facts(before), facts(after)
	var words []string
	for i, f := range is {
		old := ""
		if i < len(was) {
			old = was[i].value
		}
		switch {
		case f.value == old:
		case f.value == "":
			words = append(words, f.name+" cleared")
		default:
			words = append(words, f.name+"="+f.value)
		}
	}
	return words
}

// A fact is a field of an object that Changes compares. Objects of one kind always have the same
// facts in the same order.
type fact struct{ name, value string }

func facts(obj runtime.Object) []fact {
	var own []fact
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		own = claimFacts(o)
	case *corev1.PersistentVolume:
		own = volumeFacts(o)
	case *corev1.Pod:
		own = []fact{{"node", o.Spec.NodeName}, {"phase", string(o.Status.Phase)}}
	case *corev1.Node:
		own = nodeFacts(o)
	case *storagev1.VolumeAttachment:
		own = attachmentFacts(o)
	case *corev1.Event:
		own = []fact{{"reason", o.Reason}, {"message", fmt.Sprintf("%q", o.Message)}, {"count", fmt.Sprint(o.Count)}}
	}
	meta, ok := obj.(metav1.Object)
	if !ok || obj == nil {
		return nil
	}
	deleting := ""
	if meta.GetDeletionTimestamp() != nil {
		deleting = "yes"
	}
	return append(own, fact{"finalizers", list(meta.GetFinalizers())}, fact{"deleting", deleting})
}

func claimFacts(c *corev1.PersistentVolumeClaim) []fact {
	capacity := ""
	if q, ok := c.Status.Capacity[corev1.ResourceStorage]; ok {
		capacity = q.String()
	}
	modification := ""
	if m := c.Status.ModifyVolumeStatus; m != nil {
		modification = strings.TrimSpace(string(m.Status) + " " + m.TargetVolumeAttributesClassName)
	}
	return []fact{
		{"volume", c.Spec.VolumeName},
		{"bind-completed", c.Annotations["pv.kubernetes.io/bind-completed"]},
		{"bound-by-controller", c.Annotations["pv.kubernetes.io/bound-by-controller"]},
		{"provisioner", c.Annotations["volume.kubernetes.io/storage-provisioner"]},
		{"selected-node", c.Annotations["volume.kubernetes.io/selected-node"]},
		{"phase", string(c.Status.Phase)},
		{"capacity", capacity},
		{"attributes", ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "")},
		{"modification", modification},
	}
}

func volumeFacts(v *corev1.PersistentVolume) []fact {
	claim := ""
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
		if ref.UID == "" {
			claim += " (no uid)"
		}
	}
	return []fact{
		{"claim", claim},
		{"bound-by-controller", v.Annotations["pv.kubernetes.io/bound-by-controller"]},
		{"phase", string(v.Status.Phase)},
		{"attributes", ptr.Deref(v.Spec.VolumeAttributesClassName, "")},
	}
}

func nodeFacts(n *corev1.Node) []fact {
	var attached, inUse []string
	for _, v := range n.Status.VolumesAttached {
		attached = append(attached, string(v.Name))
	}
	for _, v := range n.Status.VolumesInUse {
		inUse = append(inUse, string(v))
	}
	return []fact{{"volumesAttached", list(attached)}, {"volumesInUse", list(inUse)}}
}

func attachmentFacts(a *storagev1.VolumeAttachment) []fact {
	volume, attached, attachErr, detachErr := "", "", "", ""
	if a.Spec.Source.PersistentVolumeName != nil {
		volume = *a.Spec.Source.PersistentVolumeName
	}
	if a.Status.Attached {
		attached = "true"
	}
	if e := a.Status.AttachError; e != nil {
		attachErr = fmt.Sprintf("%q", e.Message)
	}
	if e := a.Status.DetachError; e != nil {
		detachErr = fmt.Sprintf("%q", e.Message)
	}
	return []fact{
		{"volume", volume},
		{"node", a.Spec.NodeName},
		{"attached", attached},
		{"attachError", attachErr},
		{"detachError", detachErr},
	}
}

func list(items []string) string {
	if len(items) == 0 {
		return ""
	}
	items = slices.Sorted(slices.Values(items))
	return "[" + strings.Join(items, " ") + "]"
}
