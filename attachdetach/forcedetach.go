package attachdetach

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxWaitForUnmount is the default time for which an unwanted volume may stay in use. After it, the
// volume is detached from a node that is not ready.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
const maxWaitForUnmount = 6 * time.Minute

// errStillInUse is the error of a detach that did not start because the node's status, just read,
// lists the volume as in use. The text is upstream's.
var errStillInUse = errors.New("volume is still in use by node, according to Node status")

// A detachSafety states whether a volume may be detached from a node, and why.
type detachSafety int

// The values of detachSafety.
const (
	safetyInUse        detachSafety = iota // not safe: the node uses it
	safetyUnmounted                        // the node does not use it, or does not exist
	safetyTimedOut                         // in use, but the node is not ready and the timeout has passed: "timeout"
	safetyOutOfService                     // in use, but the node is tainted as shut down: "out-of-service"
)

// String returns the reason. For forced detaches it is the reason label of upstream's metric.
func (s detachSafety) String() string {
	return [...]string{"in use", "unmounted", "timeout", "out-of-service"}[s]
}

// forced reports whether the volume may be detached although it is in use.
func (s detachSafety) forced() bool { return s == safetyTimedOut || s == safetyOutOfService }

// nodeFacts holds the state of a node and one volume that decideSafety needs.
type nodeFacts struct {
	inUse        bool
	ready        bool
	outOfService bool
}

// decideSafety decides whether the volume may be detached. timedOut states that it has been
// unwanted for the timeout, and that timeouts are enabled.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reconcile (v1.36).
func decideSafety(node nodeFacts, timedOut bool) detachSafety {
	switch {
	case !node.inUse:
		return safetyUnmounted
	case node.outOfService:
		return safetyOutOfService
	case timedOut && !node.ready:
		return safetyTimedOut
	default:
		return safetyInUse
	}
}

// nodeFactsOf reads a node. A node that does not exist (nil) is neither ready nor out of service.
func nodeFactsOf(node *corev1.Node, inUse bool) nodeFacts {
	if node == nil {
		return nodeFacts{inUse: inUse}
	}
	return nodeFacts{inUse: inUse, ready: isReady(node), outOfService: isOutOfService(node)}
}

// Upstream: pkg/util/node IsNodeReady (v1.36).
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// isOutOfService reports whether the node has the out-of-service taint, with any effect.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler hasOutOfServiceTaint (v1.36).
func isOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}
