package trace

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// State returns the state of an object in a few words: "Bound to disk-1", "Running on node-2, being
// deleted". For an object of another resource it is the phase, readyToUse or the condition Ready of its
// status, otherwise "exists". It returns "none" for nil.
func State(obj runtime.Object) string {
	var words string
	switch o := obj.(type) {
	case nil:
		return "none"
	case *corev1.PersistentVolumeClaim:
		words = stateOfClaim(o)
	case *corev1.PersistentVolume:
		words = stateOfVolume(o)
	case *corev1.Pod:
		words = phaseWith(string(o.Status.Phase), "on", o.Spec.NodeName)
	case *storagev1.VolumeAttachment:
		words = "attaching to " + o.Spec.NodeName
		if o.Status.Attached {
			words = "attached to " + o.Spec.NodeName
		}
	case *corev1.Node:
		words = stateOfNode(o)
	default:
		words = stateOfOther(o)
	}
	if meta, ok := obj.(metav1.Object); ok && meta.GetDeletionTimestamp() != nil {
		words += ", being deleted"
	}
	return words
}

// stateOfOther returns the state of an object by the conventions of the API.
func stateOfOther(obj runtime.Object) string {
	values := fields(obj)
	if phase := values["status.phase"]; phase != "" {
		return phase
	}
	if ready, has := values["status.readyToUse"]; has { // of a snapshot
		return map[bool]string{true: "ready to use", false: "not ready to use"}[ready == "true"]
	}
	switch ready, has := values["status.conditions[Ready]"]; {
	case !has:
		return "exists"
	case ready == string(metav1.ConditionTrue), strings.HasPrefix(ready, string(metav1.ConditionTrue)+" "):
		return "Ready"
	default:
		return "not Ready"
	}
}

// phaseWith returns a phase and the related object. An object without a phase is "new".
func phaseWith(phase, link, other string) string {
	if phase == "" {
		phase = "new"
	}
	if other == "" {
		return phase
	}
	return phase + " " + link + " " + other
}

// Size returns the size of a claim or volume: "64Mi", "64Mi, 128Mi requested" for a claim whose
// capacity differs from its request, and "64Mi requested" for one without capacity. It returns ""
// for other objects.
func Size(obj runtime.Object) string {
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		if size, ok := o.Spec.Capacity[corev1.ResourceStorage]; ok {
			return size.String()
		}
	case *corev1.PersistentVolumeClaim:
		request, requested := o.Spec.Resources.Requests[corev1.ResourceStorage]
		capacity, has := o.Status.Capacity[corev1.ResourceStorage]
		switch {
		case !has && !requested:
			return ""
		case !has:
			return request.String() + " requested"
		case !requested || request.Cmp(capacity) == 0:
			return capacity.String()
		default:
			return capacity.String() + ", " + request.String() + " requested"
		}
	}
	return ""
}

func stateOfClaim(c *corev1.PersistentVolumeClaim) string {
	if c.Status.Phase == corev1.ClaimBound {
		return phaseWith(string(c.Status.Phase), "to", c.Spec.VolumeName)
	}
	return phaseWith(string(c.Status.Phase), "with volume", c.Spec.VolumeName)
}

func stateOfVolume(v *corev1.PersistentVolume) string {
	claim := ""
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	switch v.Status.Phase {
	case corev1.VolumeBound:
		return phaseWith("Bound", "to", claim)
	case corev1.VolumeReleased, corev1.VolumeFailed:
		return phaseWith(string(v.Status.Phase), "by", claim)
	default:
		return phaseWith(string(v.Status.Phase), "for", claim)
	}
}

func stateOfNode(n *corev1.Node) string {
	ready := "not ready"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			ready = "ready"
		}
	}
	return fmt.Sprintf("%s, %d attached, %d in use", ready, len(n.Status.VolumesAttached), len(n.Status.VolumesInUse))
}
