package namespace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// okConditions are the conditions without a failure, in the order in which they are written.
//
// Upstream: pkg/controller/namespace/deletion conditionTypes, okMessages, okReasons.
var okConditions = []corev1.NamespaceCondition{
	{
		Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse,
		Reason: "ResourcesDiscovered", Message: "All resources successfully discovered",
	},
	{
		Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse,
		Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed",
	},
	{
		Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse,
		Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization",
	},
	{
		Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse,
		Reason: "ContentRemoved", Message: "All content successfully removed",
	},
	{
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionFalse,
		Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished",
	},
}

// conditions collects the failures of one attempt to delete a namespace's content.
//
// Upstream: pkg/controller/namespace/deletion namespaceConditionUpdater.
type conditions struct {
	now      metav1.Time
	failures []corev1.NamespaceCondition
	failed   []error // of deletions
}

func (c *conditions) add(what corev1.NamespaceConditionType, reason, message string) {
	c.failures = append(c.failures, corev1.NamespaceCondition{
		Type: what, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
}

// discovery records that discovery was incomplete.
func (c *conditions) discovery(err error) {
	msg := err.Error()
	var failed *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &failed) {
		msg = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(failed.Groups), err)
	}
	c.add(corev1.NamespaceDeletionDiscoveryFailure, "DiscoveryFailed", msg)
}

// parsing records an invalid group and version.
func (c *conditions) parsing(err error) {
	c.add(corev1.NamespaceDeletionGVParsingFailure, "GroupVersionParsingFailed", err.Error())
}

// remaining records the remaining content.
func (c *conditions) remaining(found content) {
	if len(found.resources) > 0 {
		var all []string
		for r, n := range found.resources {
			all = append(all, fmt.Sprintf("%s.%s has %d resource instances", r.Resource, r.Group, n))
		}
		slices.Sort(all)
		c.add(corev1.NamespaceContentRemaining, "SomeResourcesRemain",
			"Some resources are remaining: "+strings.Join(all, ", "))
	}
	if len(found.finalizers) > 0 {
		var all []string
		for f, n := range found.finalizers {
			all = append(all, fmt.Sprintf("%s in %d resource instances", f, n))
		}
		slices.Sort(all)
		c.add(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+strings.Join(all, ", "))
	}
}

// update updates the conditions of a status, and reports whether they changed.
func (c *conditions) update(status *corev1.NamespaceStatus) (changed bool) {
	if len(c.failed) > 0 {
		var all []string
		for _, err := range c.failed {
			all = append(all, err.Error())
		}
		slices.Sort(all)
		c.add(corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %v", len(all), strings.Join(all, ", ")))
	}
	for _, condition := range okConditions {
		if i := find(c.failures, condition.Type); i >= 0 {
			condition = c.failures[i]
		}
		condition.LastTransitionTime = c.now
		i := find(status.Conditions, condition.Type)
		if i < 0 {
			status.Conditions = append(status.Conditions, condition)
			changed = true
			continue
		}
		existing := status.Conditions[i]
		if existing.Status == condition.Status {
			condition.LastTransitionTime = existing.LastTransitionTime
		}
		if existing != condition {
			status.Conditions[i] = condition
			changed = true
		}
	}
	return changed
}

func find(all []corev1.NamespaceCondition, what corev1.NamespaceConditionType) int {
	return slices.IndexFunc(all, func(c corev1.NamespaceCondition) bool { return c.Type == what })
}
