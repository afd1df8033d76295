package invariant

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/fake"
)

// A PendingObject is an object for which the control plane has something left to do, as the API
// objects alone show it.
type PendingObject struct {
	Rule string // ID of the rule, such as "L2"
	Kind string // kind in words: "claim", "volume"; "" for several objects
	Name string // "default/data"
	Why  string // "is being deleted"
}

// String returns "claim default/data is being deleted".
func (d PendingObject) String() string {
	return strings.TrimSpace(strings.Join([]string{d.Kind, d.Name, d.Why}, " "))
}

// PendingObjects returns what is pending in a world, sorted by kind and name: objects that are
// being deleted, pods that do not run yet, volumes that must be bound, released, reclaimed or
// modified, and attachments without a user. A running world has some at nearly any time. A world at rest has
// none, except pods that cannot run. It reads the store and leaves no trace.
func PendingObjects(api *fake.Server) []PendingObject {
	var pending []PendingObject
	used := sets.New[string]() // "node volume"
	for _, o := range api.List("pods") {
		pod := o.(*corev1.Pod)
		switch {
		case pod.DeletionTimestamp != nil:
			pending = append(pending, PendingObject{"L6", "pod", nameOf(pod), "is being deleted"})
		case pod.Status.Phase == corev1.PodPending:
			pending = append(pending, PendingObject{"L7", "pod", nameOf(pod), "is not running"})
		}
		for _, name := range volumesNamed(api, pod) {
			used.Insert(pod.Spec.NodeName + " " + name)
		}
	}
	for _, o := range api.List("persistentvolumeclaims") {
		switch status := o.(*corev1.PersistentVolumeClaim).Status.ModifyVolumeStatus; {
		case o.GetDeletionTimestamp() != nil:
			pending = append(pending, PendingObject{"L2", "claim", nameOf(o), "is being deleted"})
		case status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInProgress:
			pending = append(pending,
				PendingObject{"L18", "claim", nameOf(o), "is being modified to class " + status.TargetVolumeAttributesClassName})
		}
	}
	for _, o := range api.List("persistentvolumes") {
		if rule, why := pendingForVolume(api, o.(*corev1.PersistentVolume)); why != "" {
			pending = append(pending, PendingObject{rule, "volume", o.GetName(), why})
		}
	}
	for _, o := range api.List("volumeattachments") {
		a := o.(*storagev1.VolumeAttachment)
		if name := a.Spec.Source.PersistentVolumeName; name == nil || !used.Has(a.Spec.NodeName+" "+*name) {
			pending = append(pending,
				PendingObject{"L4", "attachment", a.Name, fmt.Sprintf("to %s is not used", a.Spec.NodeName)})
		}
	}
	return append(pending, pendingForNodes(api)...)
}

func pendingForVolume(api *fake.Server, volume *corev1.PersistentVolume) (rule, why string) {
	switch volume.Status.Phase {
	case corev1.VolumePending:
		return "L1", "must become Available or Bound"
	case corev1.VolumeBound:
		ref := volume.Spec.ClaimRef
		if ref == nil {
			return "L2", "must become Available"
		}
		if claim, ok := api.Get("persistentvolumeclaims", ref.Namespace, ref.Name); !ok || claim.GetUID() != ref.UID {
			return "L2", "must be released"
		}
	case corev1.VolumeReleased:
		if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			return "L2", "must be reclaimed"
		}
	}
	if volume.DeletionTimestamp != nil {
		return "L2", "is being deleted"
	}
	return "", ""
}

// pendingForNodes compares what the nodes list as attached and as in use with the attachments.
func pendingForNodes(api *fake.Server) []PendingObject {
	var pending []PendingObject
	attachments := len(api.List("volumeattachments"))
	listed := 0
	for _, o := range api.List("nodes") {
		node := o.(*corev1.Node)
		listed += len(node.Status.VolumesAttached)
		if a, u := len(node.Status.VolumesAttached), len(node.Status.VolumesInUse); a != u {
			pending = append(pending,
				PendingObject{"L5", "node", node.Name, fmt.Sprintf("lists %d volumes attached, %d in use", a, u)})
		}
	}
	if listed != attachments {
		pending = append(pending,
			PendingObject{Rule: "L5", Why: fmt.Sprintf("%d attachments, %d listed by nodes", attachments, listed)})
	}
	return pending
}

// volumesNamed returns the names of the PersistentVolumes behind a pod's claims, as far as the
// claims name them.
func volumesNamed(api *fake.Server, pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		o, ok := api.Get("persistentvolumeclaims", pod.Namespace, source.ClaimName)
		if ok && o.(*corev1.PersistentVolumeClaim).Spec.VolumeName != "" {
			names = append(names, o.(*corev1.PersistentVolumeClaim).Spec.VolumeName)
		}
	}
	return names
}

// nameOf returns "namespace/name".
func nameOf(o fake.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// Leaks returns the objects that still exist in a world whose claims and pods should all be gone.
// It does not look at disks and drivers.
func Leaks(api *fake.Server) []string {
	var left []string
	for _, resource := range []string{"pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments"} {
		for _, o := range api.List(resource) {
			left = append(left, resource+" "+nameOf(o))
		}
	}
	return left
}
