package trace

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Describe returns what a record means for a volume, as a sentence without its subject, the task:
// "binds claim default/data …". It returns false for records that matter only in detail: reads,
// deliveries, and writes without a relevant change.
func Describe(r Record) (string, bool) {
	switch {
	case r.Kind == KindDriver:
		return describeCall(r)
	case r.Kind != KindAPI:
		return "", false
	case r.Lost:
		return describeLost(r)
	case r.Err != nil:
		return describeRefusal(r)
	case r.After == nil:
		return "", false
	}
	if r.Gone || strings.HasPrefix(r.Verb, "delete") {
		return describeDelete(r)
	}
	switch after := r.After.(type) {
	case *corev1.PersistentVolumeClaim:
		return describeClaim(before[*corev1.PersistentVolumeClaim](r.Before), after)
	case *corev1.PersistentVolume:
		return describeVolume(before[*corev1.PersistentVolume](r.Before), after)
	case *corev1.Pod:
		return describePod(before[*corev1.Pod](r.Before), after)
	case *corev1.Node:
		return describeNode(before[*corev1.Node](r.Before), after)
	case *storagev1.VolumeAttachment:
		return describeAttachment(before[*storagev1.VolumeAttachment](r.Before), after)
	case *storagev1.StorageClass:
		return fmt.Sprintf("creates storage class %s, served by %s", after.Name, after.Provisioner), r.Before == nil
	case *storagev1.CSINode:
		return describeDrivers(before[*storagev1.CSINode](r.Before), after)
	}
	if isSnapshot(r.After) {
		return describeSnapshot(r.Before, r.After)
	}
	return "", false
}

// before returns the object before a write as its type, or an empty one before a create.
func before[T interface {
	*E
	runtime.Object
}, E any](obj runtime.Object) T {
	if o, ok := obj.(T); ok {
		return o
	}
	return new(E)
}

// A candidate is a sentence and its condition.
type candidate struct {
	holds    bool
	sentence string
}

// firstHolding returns the first sentence whose condition holds.
func firstHolding(options ...candidate) (string, bool) {
	for _, o := range options {
		if o.holds {
			return o.sentence, true
		}
	}
	return "", false
}

// describeLost describes an action that took effect although its caller got an error.
func describeLost(r Record) (string, bool) {
	err := r.Err
	r.Err, r.Lost = nil, false
	words, ok := Describe(r)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%s, but the response is lost: %v", words, err), true
}

// unprocessable is the whole answer of an API server to a JSON patch that it cannot apply, such as
// one with a failed test operation.
//
// Upstream: k8s.io/apiserver pkg/endpoints/handlers applyJSPatch (v1.36).
const unprocessable = "the server rejected our request due to an error in our request"

// describeRefusal describes a failed request. It leaves out what is normal: a read of a missing
// object, a create of an existing one. A component retries; a user need not.
func describeRefusal(r Record) (string, bool) {
	retries := " and will retry"
	if r.Task != "" && !strings.Contains(r.Task, "/") { // of a user
		retries = ""
	}
	switch {
	case apierrors.IsNotFound(r.Err), apierrors.IsAlreadyExists(r.Err):
		return "", false
	case apierrors.IsConflict(r.Err):
		return fmt.Sprintf("gets a conflict for its %s of %s%s", r.Verb, ObjectName(r.Object), retries), true
	case apierrors.IsInvalid(r.Err) && r.Err.Error() == unprocessable && strings.HasPrefix(r.Verb, "patch"):
		return fmt.Sprintf("gets an error for its %s of %s, since the JSON patch does not apply to the current object%s",
			r.Verb, ObjectName(r.Object), strings.Replace(retries, " and", ", and", 1)), true
	default:
		return fmt.Sprintf("gets an error for its %s of %s: %v", r.Verb, ObjectName(r.Object), r.Err), true
	}
}

func describeDelete(r Record) (string, bool) {
	noun := nameOf(r.After)
	if noun == "" {
		return "", false
	}
	return describeDeleteOf(r, noun), true
}

// describeDeleteOf describes a deletion, or the removal of the last finalizer, of the object noun.
func describeDeleteOf(r Record, noun string) string {
	switch attachment, ok := r.After.(*storagev1.VolumeAttachment); {
	case r.Gone && ok:
		return fmt.Sprintf("reports the volume detached from %s and removes %s", attachment.Spec.NodeName, noun)
	case r.Gone && strings.HasPrefix(r.Verb, "delete"):
		return "deletes " + noun
	case r.Gone:
		return "removes the last finalizer from " + noun
	}
	if is, ok := r.After.(metav1.Object); ok && len(is.GetFinalizers()) > 0 {
		return fmt.Sprintf("deletes %s, which remains until its finalizers %s are removed", noun, list(is.GetFinalizers()))
	}
	return "deletes " + noun + " with a grace period"
}

func nameOf(obj runtime.Object) string {
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return "claim " + o.Namespace + "/" + o.Name
	case *corev1.PersistentVolume:
		return "volume " + o.Name
	case *corev1.Pod:
		return "pod " + o.Namespace + "/" + o.Name
	case *storagev1.VolumeAttachment:
		return "the attachment to " + o.Spec.NodeName
	}
	if isSnapshot(obj) {
		return nameOfSnapshot(obj)
	}
	return ""
}

func describeClaim(was, is *corev1.PersistentVolumeClaim) (string, bool) {
	noun := nameOf(is)
	size := is.Spec.Resources.Requests[corev1.ResourceStorage]
	provisioner := is.Annotations["volume.kubernetes.io/storage-provisioner"]
	node := is.Annotations["volume.kubernetes.io/selected-node"]
	return firstHolding(
		candidate{was.Name == "", fmt.Sprintf("creates %s of %s", noun, size.String())},
		candidate{
			was.Spec.VolumeName != is.Spec.VolumeName && is.Spec.VolumeName != "",
			fmt.Sprintf("binds %s to volume %s", noun, is.Spec.VolumeName),
		},
		candidate{was.Status.Phase != is.Status.Phase, fmt.Sprintf("marks %s %s", noun, is.Status.Phase)},
		candidate{
			was.Annotations["volume.kubernetes.io/storage-provisioner"] != provisioner && provisioner != "",
			fmt.Sprintf("requests provisioning of %s by %s", noun, provisioner),
		},
		candidate{
			was.Annotations["volume.kubernetes.io/selected-node"] != node && node != "",
			fmt.Sprintf("selects %s for %s", node, noun),
		},
		resized(was.Spec.Resources.Requests, is.Spec.Resources.Requests, "changes the size that "+noun+" requests"),
		resized(was.Status.Capacity, is.Status.Capacity, "changes the capacity of "+noun),
		reclassified(was.Spec.VolumeAttributesClassName, is.Spec.VolumeAttributesClassName, "changes the VolumeAttributesClass that "+noun+" requests"),
		reclassified(was.Status.CurrentVolumeAttributesClassName, is.Status.CurrentVolumeAttributesClassName, "reports the volume of "+noun+" modified"),
		modified(was, is, noun),
	)
}

// reclassified describes a changed VolumeAttributesClass.
func reclassified(was, is *string, words string) candidate {
	old, class := ptr.Deref(was, ""), ptr.Deref(is, "")
	return candidate{old != class, fmt.Sprintf("%s from %s to %s", words, orNone(old), orNone(class))}
}

// modified describes a changed state of the modification of a claim's volume.
func modified(was, is *corev1.PersistentVolumeClaim, noun string) candidate {
	old, state := ptr.Deref(was.Status.ModifyVolumeStatus, corev1.ModifyVolumeStatus{}), is.Status.ModifyVolumeStatus
	if state == nil {
		return candidate{}
	}
	words := fmt.Sprintf("marks the modification of %s %s", noun, state.Status)
	if target := state.TargetVolumeAttributesClassName; target != "" {
		words += " to " + target
	}
	return candidate{old != *state, words}
}

// resized describes a changed size of storage.
func resized(was, is corev1.ResourceList, words string) candidate {
	old, size := was[corev1.ResourceStorage], is[corev1.ResourceStorage]
	return candidate{old.Cmp(size) != 0, fmt.Sprintf("%s from %s to %s", words, old.String(), size.String())}
}

func describeVolume(was, is *corev1.PersistentVolume) (string, bool) {
	noun := nameOf(is)
	claim, purpose := "", ""
	if ref := is.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
		purpose = " for claim " + claim
	}
	capacity := is.Spec.Capacity[corev1.ResourceStorage]
	policy, old := is.Spec.PersistentVolumeReclaimPolicy, was.Spec.PersistentVolumeReclaimPolicy
	return firstHolding(
		candidate{was.Name == "", fmt.Sprintf("creates %s of %s%s", noun, capacity.String(), purpose)},
		candidate{policy != old, fmt.Sprintf("changes the reclaim policy of %s from %s to %s", noun, old, policy)},
		candidate{
			was.Spec.ClaimRef == nil && is.Spec.ClaimRef != nil,
			fmt.Sprintf("reserves %s for claim %s", noun, claim),
		},
		candidate{was.Spec.ClaimRef != nil && is.Spec.ClaimRef == nil, fmt.Sprintf("clears the claimRef of %s", noun)},
		candidate{
			claimChanged(was, is),
			fmt.Sprintf("reserves %s for claim %s instead of its previous claim", noun, claim),
		},
		candidate{was.Status.Phase != is.Status.Phase, fmt.Sprintf("marks %s %s", noun, is.Status.Phase)},
		candidate{
			len(is.Finalizers) < len(was.Finalizers),
			fmt.Sprintf("removes its finalizer from %s (remaining: %s)", noun, orNone(list(is.Finalizers))),
		},
		candidate{
			len(is.Finalizers) > len(was.Finalizers),
			fmt.Sprintf("adds finalizer %s to %s", is.Finalizers[max(0, len(is.Finalizers)-1):], noun),
		},
		resized(was.Spec.Capacity, is.Spec.Capacity, "changes the capacity of "+noun),
		reclassified(was.Spec.VolumeAttributesClassName, is.Spec.VolumeAttributesClassName, "changes the VolumeAttributesClass of "+noun),
	)
}

// claimChanged reports whether a volume passes from one claim to another. Both claims may have the
// same name.
func claimChanged(was, is *corev1.PersistentVolume) bool {
	a, b := was.Spec.ClaimRef, is.Spec.ClaimRef
	if a == nil || b == nil {
		return false
	}
	return a.Namespace != b.Namespace || a.Name != b.Name || a.UID != "" && b.UID != "" && a.UID != b.UID
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func describePod(was, is *corev1.Pod) (string, bool) {
	noun := nameOf(is)
	return firstHolding(
		candidate{was.Name == "", "creates " + noun},
		candidate{was.Spec.NodeName != is.Spec.NodeName, fmt.Sprintf("binds %s to %s", noun, is.Spec.NodeName)},
		candidate{was.Status.Phase != is.Status.Phase, fmt.Sprintf("reports %s %s", noun, is.Status.Phase)},
		candidate{was.Status.NominatedNodeName != is.Status.NominatedNodeName, describeNomination(noun, is.Status.NominatedNodeName)},
	)
}

func describeNomination(pod, node string) string {
	if node == "" {
		return "removes the nomination of " + pod
	}
	return fmt.Sprintf("nominates %s for %s", node, pod)
}

func describeNode(was, is *corev1.Node) (string, bool) {
	added, removed := difference(was.Status.VolumesInUse, is.Status.VolumesInUse)
	attached, detached := difference(attachedNames(was), attachedNames(is))
	return firstHolding(
		candidate{was.Name == "", "registers " + is.Name},
		candidate{
			was.Spec.Unschedulable != is.Spec.Unschedulable,
			map[bool]string{true: "cordons ", false: "uncordons "}[is.Spec.Unschedulable] + is.Name,
		},
		candidate{attached != "", fmt.Sprintf("lists %s as attached to %s", attached, is.Name)},
		candidate{detached != "", fmt.Sprintf("no longer lists %s as attached to %s", detached, is.Name)},
		candidate{added != "", fmt.Sprintf("reports %s in use on %s", added, is.Name)},
		candidate{removed != "", fmt.Sprintf("reports %s no longer in use on %s", removed, is.Name)},
	)
}

func attachedNames(n *corev1.Node) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	for _, v := range n.Status.VolumesAttached {
		names = append(names, v.Name)
	}
	return names
}

// difference returns the names that were added and removed, each as one text.
func difference(was, is []corev1.UniqueVolumeName) (added, removed string) {
	missing := func(from, in []corev1.UniqueVolumeName) string {
		known := map[corev1.UniqueVolumeName]bool{}
		for _, v := range in {
			known[v] = true
		}
		var names []string
		for _, v := range from {
			if !known[v] {
				names = append(names, shortHandle(string(v)))
			}
		}
		return strings.Join(names, ", ")
	}
	return missing(is, was), missing(was, is)
}

// shortHandle returns the last part of a volume's unique name, which readers recognise.
func shortHandle(name string) string {
	if i := strings.LastIndexAny(name, "^/"); i >= 0 {
		return name[i+1:]
	}
	return name
}

func describeAttachment(was, is *storagev1.VolumeAttachment) (string, bool) {
	volume := ""
	if is.Spec.Source.PersistentVolumeName != nil {
		volume = *is.Spec.Source.PersistentVolumeName
	}
	failed := func(what string, e, old *storagev1.VolumeError) candidate {
		if e == nil {
			return candidate{}
		}
		return candidate{
			old == nil || old.Message != e.Message,
			fmt.Sprintf("cannot %s volume %s: %s", what, volume, e.Message),
		}
	}
	return firstHolding(
		candidate{was.Name == "", fmt.Sprintf("requests attachment of volume %s to %s", volume, is.Spec.NodeName)},
		candidate{
			!was.Status.Attached && is.Status.Attached,
			fmt.Sprintf("reports volume %s attached to %s", volume, is.Spec.NodeName),
		},
		failed("attach", is.Status.AttachError, was.Status.AttachError),
		failed("detach", is.Status.DetachError, was.Status.DetachError),
	)
}

// describeDrivers describes the driver that was not registered before.
func describeDrivers(was, is *storagev1.CSINode) (string, bool) {
	known := map[string]bool{}
	for _, d := range was.Spec.Drivers {
		known[d.Name] = true
	}
	for _, d := range is.Spec.Drivers {
		if !known[d.Name] {
			return fmt.Sprintf("registers driver %s on %s", d.Name, is.Name), true
		}
	}
	return "", false
}

// calls describes the driver calls that matter.
var calls = map[string]string{
	"CreateVolume":              "has the driver create a volume",
	"DeleteVolume":              "has the driver delete the volume",
	"CreateSnapshot":            "has the driver take a snapshot",
	"DeleteSnapshot":            "has the driver delete the snapshot",
	"CreateVolumeGroupSnapshot": "has the driver take a group of snapshots",
	"DeleteVolumeGroupSnapshot": "has the driver delete the group of snapshots",
	"ControllerPublishVolume":   "has the driver attach the volume",
	"ControllerUnpublishVolume": "has the driver detach the volume",
	"ControllerExpandVolume":    "has the driver expand the volume",
	"NodeExpandVolume":          "has the driver expand the volume on the node",
	"NodeStageVolume":           "has the driver stage the volume",
	"NodeUnstageVolume":         "has the driver unstage the volume",
	"NodePublishVolume":         "has the driver publish the volume to the pod",
	"NodeUnpublishVolume":       "has the driver unpublish the volume from the pod",
	"ChangeOwnership":           "changes the group of the volume's files to the pod's fsGroup",
	"Provision":                 "has the plugin create a volume",
	"Delete":                    "has the plugin delete the volume",
	"Recycle":                   "scrubs the volume, as the recycler pod would",
	"Clean":                     "removes the content of the disk",
	"MakeSubPath":               "creates a subpath directory in the volume for a container",
	"BindSubPath":               "bind-mounts a subpath of the volume for a container",
	"UnbindSubPath":             "unmounts a container's subpath of the volume",
	"RemoveSubPaths":            "removes the empty mount points of containers' subpaths of the volume",
	"SetUp":                     "sets up the volume for the pod",
	"TearDown":                  "removes the volume from the pod",
	"WriteFiles":                "writes the new files of the volume",
	"ReplaceFiles":              "makes the new files of the volume the current ones",
	"LinkFiles":                 "creates the links to the files of the volume, and removes old ones",
	"BindDevice":                "bind-mounts for the pod the device of volume",
	"LinkDevice":                "creates the pod's link to the device of volume",
	"LockDevice":                "locks the device of volume",
	"UnlockDevice":              "unlocks the device of volume",
	"UnlinkDevice":              "removes the pod's link to the device of volume",
	"UnbindDevice":              "removes the pod's bind mount of the device of volume",
}

func describeCall(r Record) (string, bool) {
	words, ok := calls[r.Verb]
	switch {
	case r.Lost:
		return describeLost(r)
	case r.Err != nil:
		return fmt.Sprintf("calls %s of %s, which fails: %v", r.Verb, r.Object, r.Err), true
	case !ok:
		return "", false
	case r.Detail != "":
		return words + ": " + r.Detail, true
	default:
		return words + " " + shortHandle(r.Object), true
	}
}
