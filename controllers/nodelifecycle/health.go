package nodelifecycle

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How long a node may be silent, with and without a condition Ready.
//
// Upstream: pkg/controller/nodelifecycle/config/v1alpha1
// RecommendedDefaultNodeLifecycleControllerConfiguration (v1.36).
const (
	gracePeriod        = 50 * time.Second
	startupGracePeriod = 60 * time.Second
)

// A health is what the controller knows of a node.
type health struct {
	uid       types.UID
	zone      string
	ready     corev1.ConditionStatus // of the condition Ready; "": none
	reported  *metav1.Time           // heartbeat of the condition Ready; nil: none was seen
	renewed   time.Time              // of the Lease as last seen; zero: none was seen
	probe     time.Time              // of the last report
	unmarked  bool                   // its pods must be marked as not ready
	untaint   bool                   // it must lose its NoExecute taint
	clockless bool                   // the times of Leases are those of another clock
}

// observe takes in a node as it is now. Times are those at which the controller sees a report, as the
// clock of a node may be another. For a new node it is now, or its creation if it has never reported.
//
// Upstream: pkg/controller/nodelifecycle tryUpdateNodeHealth (v1.36).
func (h *health) observe(node *corev1.Node, now time.Time) {
	var reported *metav1.Time
	h.ready = ""
	if ready := condition(node, corev1.NodeReady); ready != nil {
		h.ready, reported = ready.Status, ready.LastHeartbeatTime.DeepCopy()
	}
	switch {
	case h.probe.IsZero() && reported == nil:
		h.probe = node.CreationTimestamp.Time
	case h.probe.IsZero(), !h.reported.Equal(reported):
		h.probe = now
	}
	h.reported = reported
}

// renew takes in a Lease, which may be nil. If its times are those of the clock of the process, the
// controller need not see each renewal.
func (h *health) renew(lease *coordinationv1.Lease, now time.Time) {
	if lease == nil || lease.Spec.RenewTime == nil || !h.renewed.Before(lease.Spec.RenewTime.Time) {
		return
	}
	first := h.renewed.IsZero()
	h.renewed = lease.Spec.RenewTime.Time
	if first || h.clockless {
		h.probe = now
	} else if h.probe.Before(h.renewed) && !h.renewed.After(now) {
		h.probe = h.renewed
	}
}

// deadline returns when the node is dead if it does not report.
func (h *health) deadline(grace time.Duration) time.Time {
	if h.ready == "" {
		return h.probe.Add(startupGracePeriod)
	}
	return h.probe.Add(grace)
}

// hasExpired reports whether a monitored node is dead, according to the caches.
func (c *controller) hasExpired(node *corev1.Node, now time.Time) bool {
	known := c.nodes[node.Name]
	if known == nil || known.uid != node.UID {
		return false
	}
	h := *known
	h.observe(node, now)
	h.renew(c.lease(node.Name), now)
	return !now.Before(h.deadline(c.grace))
}

// silenced returns the node as one that does not report, or nil if it is that already.
//
// Upstream: pkg/controller/nodelifecycle tryUpdateNodeHealth (v1.36).
func silenced(node *corev1.Node, now metav1.Time) *corev1.Node {
	if ready := condition(node, corev1.NodeReady); ready != nil && ready.Status == corev1.ConditionUnknown {
		return nil
	}
	node = node.DeepCopy()
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		switch c := condition(node, kind); {
		case c == nil:
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: now,
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.LastTransitionTime = corev1.ConditionUnknown, now
			c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		}
	}
	return node
}

// condition returns a condition of a node, or nil.
func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
