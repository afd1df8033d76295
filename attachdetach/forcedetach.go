package attachdetach

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxWaitForUnmount is how long a volume that is not wanted may stay in use before it is taken away from a node that is
// not ready.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
const MaxWaitForUnmount = 6 * time.Minute

// ErrStillInUse is matched by the error of a detach that was not begun because the node's status, just read, says that
// the volume is in use.
var ErrStillInUse = errors.New("volume is still in use by node, according to Node status")

// Safety tells whether a volume may be detached from a node, and why.
type Safety int

// The reasons why it may, or may not.
const (
	InUse        Safety = iota // it may not: the node uses it
	Unmounted                  // the node does not use it, or is not there
	TimedOut                   // it is in use, but the node is not ready and had its time: "timeout"
	OutOfService               // it is in use, but somebody vouches that the node is shut down: "out-of-service"
)

// String gives the reason as a word; for forced detaches it is that of upstream's metric.
func (s Safety) String() string {
	return [...]string{"in use", "unmounted", "timeout", "out-of-service"}[s]
}

// Forced tells whether the volume may be detached although it is in use.
func (s Safety) Forced() bool { return s == TimedOut || s == OutOfService }

// nodeFacts is what a node says about itself and one volume.
type nodeFacts struct {
	inUse        bool
	ready        bool
	outOfService bool
}

// judge tells whether the volume may be detached. timedOut says that it has not been wanted for long enough, and that
// this is to count.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reconcile (v1.36).
func judge(node nodeFacts, timedOut bool) Safety {
	switch {
	case !node.inUse:
		return Unmounted
	case node.outOfService:
		return OutOfService
	case timedOut && !node.ready:
		return TimedOut
	default:
		return InUse
	}
}

// factsOf reads a node; nil, a node that is not there, is neither ready nor out of service.
func factsOf(node *corev1.Node, inUse bool) nodeFacts {
	if node == nil {
		return nodeFacts{inUse: inUse}
	}
	return nodeFacts{inUse: inUse, ready: ready(node), outOfService: outOfService(node)}
}

// Upstream: pkg/util/node IsNodeReady (v1.36).
func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// outOfService asks for the taint's key only, whatever its effect.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler hasOutOfServiceTaint (v1.36).
func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}
