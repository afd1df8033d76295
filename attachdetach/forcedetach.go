package attachdetach

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxWaitForUnmount is how long a volume that is not wanted may stay in use before it is taken away from a node that is
// not ready.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
const maxWaitForUnmount = 6 * time.Minute

// errStillInUse is matched by the error of a detach that was not begun because the node's status, just read, says that
// the volume is in use.
var errStillInUse = errors.New("volume is still in use by node, according to Node status")

// detachSafety tells whether a volume may be detached from a node, and why.
type detachSafety int

// The reasons why it may, or may not.
const (
	safetyInUse        detachSafety = iota // it may not: the node uses it
	safetyUnmounted                        // the node does not use it, or is not there
	safetyTimedOut                         // it is in use, but the node is not ready and had its time: "timeout"
	safetyOutOfService                     // it is in use, but somebody vouches that the node is shut down: "out-of-service"
)

// String gives the reason as a word; for forced detaches it is that of upstream's metric.
func (s detachSafety) String() string {
	return [...]string{"in use", "unmounted", "timeout", "out-of-service"}[s]
}

// forced tells whether the volume may be detached although it is in use.
func (s detachSafety) forced() bool { return s == safetyTimedOut || s == safetyOutOfService }

// nodeFacts is what a node says about itself and one volume.
type nodeFacts struct {
	inUse        bool
	ready        bool
	outOfService bool
}

// decideSafety tells whether the volume may be detached. timedOut says that it has not been wanted for long enough, and that
// this is to count.
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

// nodeFactsOf reads a node; nil, a node that is not there, is neither ready nor out of service.
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

// isOutOfService asks for the taint's key only, whatever its effect.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler hasOutOfServiceTaint (v1.36).
func isOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}
