package invariant

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/fake"
)

// PendingObject is something that the control plane has still to do, as the API objects alone show it.
type PendingObject struct {
	Rule string // the number of the rule that asks for it, such as "L2"
	Kind string // of what, in words: "claim", "volume"; "" where it is of many objects
	Name string // "default/data"
	Why  string // "is being deleted"
}

// String gives "claim default/data is being deleted".
func (d PendingObject) String() string {
	return strings.TrimSpace(strings.Join([]string{d.Kind, d.Name, d.Why}, " "))
}

// PendingObjects are what is still owed in a world, sorted by kind and name: what is being deleted, pods that do not run yet, volumes
// to be bound, released or reclaimed, and what is attached without being used. In a world that moves there are some at nearly any
// time; at rest there are none, but for pods that cannot run. It reads what is stored and leaves no trace.
func PendingObjects(api *fake.Server) []PendingObject {
	var debts []PendingObject
	used := sets.New[string]() // "node volume"
	for _, o := range api.List("pods") {
		pod := o.(*corev1.Pod)
		switch {
		case pod.DeletionTimestamp != nil:
			debts = append(debts, PendingObject{"L6", "pod", nameOf(pod), "is being deleted"})
		case pod.Status.Phase == corev1.PodPending:
			debts = append(debts, PendingObject{"L7", "pod", nameOf(pod), "is not running"})
		}
		for _, name := range volumesNamed(api, pod) {
			used.Insert(pod.Spec.NodeName + " " + name)
		}
	}
	for _, o := range api.List("persistentvolumeclaims") {
		if o.GetDeletionTimestamp() != nil {
			debts = append(debts, PendingObject{"L2", "claim", nameOf(o), "is being deleted"})
		}
	}
	for _, o := range api.List("persistentvolumes") {
		if rule, why := pendingForVolume(api, o.(*corev1.PersistentVolume)); why != "" {
			debts = append(debts, PendingObject{rule, "volume", o.GetName(), why})
		}
	}
	for _, o := range api.List("volumeattachments") {
		a := o.(*storagev1.VolumeAttachment)
		if name := a.Spec.Source.PersistentVolumeName; name == nil || !used.Has(a.Spec.NodeName+" "+*name) {
			debts = append(debts, PendingObject{"L4", "attachment", a.Name, fmt.Sprintf("to %s is not used", a.Spec.NodeName)})
		}
	}
	return append(debts, pendingForNodes(api)...)
}

func pendingForVolume(api *fake.Server, volume *corev1.PersistentVolume) (rule, why string) {
	switch volume.Status.Phase {
	case corev1.VolumePending:
		return "L1", "is to be made available, or bound"
	case corev1.VolumeBound:
		ref := volume.Spec.ClaimRef
		if ref == nil {
			return "L2", "is to be made available"
		}
		if claim, ok := api.Get("persistentvolumeclaims", ref.Namespace, ref.Name); !ok || claim.GetUID() != ref.UID {
			return "L2", "is to be released"
		}
	case corev1.VolumeReleased:
		if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			return "L2", "is to be reclaimed"
		}
	}
	if volume.DeletionTimestamp != nil {
		return "L2", "is being deleted"
	}
	return "", ""
}

// pendingForNodes: what the nodes list as attached and as in use is what is attached.
func pendingForNodes(api *fake.Server) []PendingObject {
	var debts []PendingObject
	attachments := len(api.List("volumeattachments"))
	listed := 0
	for _, o := range api.List("nodes") {
		node := o.(*corev1.Node)
		listed += len(node.Status.VolumesAttached)
		if a, u := len(node.Status.VolumesAttached), len(node.Status.VolumesInUse); a != u {
			debts = append(debts, PendingObject{"L5", "node", node.Name, fmt.Sprintf("lists %d volumes attached, %d in use", a, u)})
		}
	}
	if listed != attachments {
		debts = append(debts, PendingObject{Rule: "L5", Why: fmt.Sprintf("%d attachments, %d listed by nodes", attachments, listed)})
	}
	return debts
}

// volumesNamed are the names of the PersistentVolumes behind a pod's claims, as far as the claims say.
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

// nameOf gives "namespace/name".
func nameOf(o fake.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// Leaks are the objects that are still there, in a world all of whose claims and pods should be gone. What is on disks and at
// the driver it does not see.
func Leaks(api *fake.Server) []string {
	var left []string
	for _, resource := range []string{"pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments"} {
		for _, o := range api.List(resource) {
			left = append(left, resource+" "+nameOf(o))
		}
	}
	return left
}
