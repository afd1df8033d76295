package framework

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// An EventResource is a kind of object whose changes may make pods schedulable.
type EventResource string

// The kinds.
//
// Upstream: k8s.io/kube-scheduler/framework EventResource (v1.36).
const (
	Pod                   EventResource = "Pod" // with a node, or the pod itself
	Node                  EventResource = "Node"
	PersistentVolume      EventResource = "PersistentVolume"
	PersistentVolumeClaim EventResource = "PersistentVolumeClaim"
	StorageClass          EventResource = "StorageClass"
	CSINode               EventResource = "CSINode"
	CSIDriver             EventResource = "CSIDriver"
	CSIStorageCapacity    EventResource = "CSIStorageCapacity"
	VolumeAttachment      EventResource = "VolumeAttachment"
)

// An ActionType is a set of changes.
type ActionType int

// The changes.
//
// Upstream: k8s.io/kube-scheduler/framework ActionType (v1.36).
const (
	Add ActionType = 1 << iota
	Delete
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
	UpdatePodLabel
	UpdatePodScaleDown // a request was reduced
	UpdatePodToleration
	UpdatePodSchedulingGatesEliminated
	UpdateOther // of any other part of a pod, or of any other kind of object
	Update      = UpdateNodeAllocatable | UpdateNodeLabel | UpdateNodeTaint | UpdateNodeCondition | UpdateNodeAnnotation |
		UpdatePodLabel | UpdatePodScaleDown | UpdatePodToleration | UpdatePodSchedulingGatesEliminated | UpdateOther
)

// An Event is a change that may make pods schedulable.
type Event struct {
	Resource EventResource
	Action   ActionType
	Old, New any // nil for an object that was added, or deleted
}

// An EventHint is a plugin's interest in changes.
type EventHint struct {
	Resource EventResource
	Action   ActionType
	// Hint reports whether the change may make a pod schedulable that the plugin rejected. nil: any
	// does. Old and new may be nil.
	Hint func(pod *corev1.Pod, old, new any) bool
}

// Matches reports whether the event is one of those, and may help the pod.
func (h *EventHint) Matches(e *Event, pod *corev1.Pod) bool {
	return h.Resource == e.Resource && h.Action&e.Action != 0 && (h.Hint == nil || h.Hint(pod, e.Old, e.New))
}

// PodChanges returns what changed between two versions of a pod.
//
// Upstream: pkg/scheduler/framework PodSchedulingPropertiesChange (v1.36).
func PodChanges(old, pod *corev1.Pod) ActionType {
	var action ActionType
	if !maps.Equal(old.Labels, pod.Labels) {
		action |= UpdatePodLabel
	}
	if isScaledDown(old, pod) {
		action |= UpdatePodScaleDown
	}
	if len(old.Spec.SchedulingGates) > 0 && len(pod.Spec.SchedulingGates) == 0 {
		action |= UpdatePodSchedulingGatesEliminated
	}
	if len(old.Spec.Tolerations) != len(pod.Spec.Tolerations) {
		action |= UpdatePodToleration
	}
	if action == 0 {
		return UpdateOther
	}
	return action
}

func isScaledDown(old, pod *corev1.Pod) bool {
	if !hasRequests(old) {
		return false
	}
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	now := resourcehelper.PodRequests(pod, options)
	for name, before := range resourcehelper.PodRequests(old, options) {
		if request, ok := now[name]; !ok || before.Cmp(request) > 0 {
			return true
		}
	}
	return false
}

// NodeChanges returns what changed between two versions of a node, 0 if nothing did that concerns pods.
//
// Upstream: pkg/scheduler/framework NodeSchedulingPropertiesChange (v1.36).
func NodeChanges(old, node *corev1.Node) ActionType {
	var action ActionType
	if old.Spec.Unschedulable && !node.Spec.Unschedulable || !slices.EqualFunc(old.Spec.Taints, node.Spec.Taints, sameTaint) {
		action |= UpdateNodeTaint
	}
	if !maps.EqualFunc(old.Status.Allocatable, node.Status.Allocatable, resource.Quantity.Equal) {
		action |= UpdateNodeAllocatable
	}
	if !maps.Equal(old.Labels, node.Labels) {
		action |= UpdateNodeLabel
	}
	if !sameStatuses(old.Status.Conditions, node.Status.Conditions) {
		action |= UpdateNodeCondition
	}
	if !maps.Equal(old.Annotations, node.Annotations) {
		action |= UpdateNodeAnnotation
	}
	return action
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// sameStatuses reports whether two lists have the same conditions with the same statuses, in any order.
func sameStatuses(a, b []corev1.NodeCondition) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(c corev1.NodeCondition) bool {
		return !slices.ContainsFunc(b, func(d corev1.NodeCondition) bool { return c.Type == d.Type && c.Status == d.Status })
	})
}
