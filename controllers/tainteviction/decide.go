package tainteviction

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
)

// A verdict is what to do with a pod.
type verdict int

const (
	keep     verdict = iota // it stays; a scheduled eviction is cancelled
	evict                   // it is evicted now
	schedule                // it is evicted after some time
)

// decide returns what to do with a pod on a node with these NoExecute taints, and after which time.
//
// Upstream: pkg/controller/tainteviction processPodOnNode (v1.36).
func decide(tolerations []corev1.Toleration, taints []corev1.Taint) (verdict, time.Duration) {
	if len(taints) == 0 {
		return keep, 0
	}
	used, all := matching(tolerations, taints)
	if !all {
		return evict, 0
	}
	switch limit, limited := shortest(used); {
	case !limited:
		return keep, 0
	case limit <= 0:
		return evict, 0
	default:
		return schedule, limit
	}
}

// matching returns the first toleration of each taint, and whether all taints are tolerated.
//
// Upstream: pkg/apis/core/v1/helper GetMatchingTolerations (v1.36).
func matching(tolerations []corev1.Toleration, taints []corev1.Taint) (used []corev1.Toleration, all bool) {
	for i := range taints {
		at := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(t, &taints[i]) })
		if at < 0 {
			return nil, false
		}
		used = append(used, tolerations[at])
	}
	return used, true
}

func tolerates(toleration corev1.Toleration, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), []corev1.Toleration{toleration}, taint, false)
}

// shortest returns the shortest time of some tolerations, and whether one of them is limited. A
// limit of 0 or less ends the toleration at once.
//
// Upstream: pkg/controller/tainteviction getMinTolerationTime (v1.36).
func shortest(tolerations []corev1.Toleration) (limit time.Duration, limited bool) {
	for _, t := range tolerations {
		if t.TolerationSeconds == nil {
			continue
		}
		d := time.Duration(max(*t.TolerationSeconds, 0)) * time.Second
		if !limited || d < limit {
			limit, limited = d, true
		}
	}
	return limit, limited
}

// noExecute returns the taints of a node that evict pods. The node may be nil.
func noExecute(node *corev1.Node) []corev1.Taint {
	if node == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectNoExecute
	})
}
