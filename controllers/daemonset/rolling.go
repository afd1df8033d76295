package daemonset

import (
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volsim/volsim/internal/workload"
)

// generationOf returns the number of a set's template; "" if it has none.
//
// Upstream: pkg/controller/daemon/util GetTemplateGeneration (v1.36).
func generationOf(set *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// isUpdated reports whether a pod has the present template of a set.
//
// Upstream: pkg/controller/daemon/util IsPodUpdated (v1.36).
func isUpdated(set *appsv1.DaemonSet, pod *corev1.Pod, hash string) bool {
	generation := generationOf(set)
	return hash != "" && pod.Labels[hashLabel] == hash || generation != "" && pod.Labels[generationLabel] == generation
}

// A pair is what a node has of a set: a pod of the present template, and one of another. ok is false if
// it has two of a sort: first some of these are deleted.
type pair struct {
	recent, old *corev1.Pod
	ok          bool
}

// pairOn returns what a node has, without pods that are being deleted.
//
// Upstream: pkg/controller/daemon findUpdatedPodsOnNode (v1.36).
func (s *state) pairOn(node string) pair {
	var p pair
	for _, pod := range s.pods[node] {
		if workload.IsTerminating(pod) {
			continue
		}
		of := &p.old
		if isUpdated(s.set, pod, s.hash) {
			of = &p.recent
		}
		if *of != nil {
			return pair{}
		}
		*of = pod
	}
	p.ok = true
	return p
}

// limits returns how many selected nodes may be without an available pod during an update, and how many
// may have a second one. If both are 0, one may be without.
//
// Upstream: pkg/controller/daemon DaemonSetsController.updatedDesiredNodeCounts (v1.36).
func (s *state) limits() (unavailable, surge int, err error) {
	unavailable, err = share(s.set, s.selected, func(r *appsv1.RollingUpdateDaemonSet) *intstr.IntOrString { return r.MaxUnavailable })
	if err != nil {
		return 0, 0, err
	}
	surge, err = share(s.set, s.selected, func(r *appsv1.RollingUpdateDaemonSet) *intstr.IntOrString { return r.MaxSurge })
	if err != nil {
		return 0, 0, err
	}
	if s.selected > 0 && surge == 0 {
		unavailable = max(unavailable, 1)
	}
	return unavailable, surge, nil
}

// roll returns which outdated pods are replaced next.
//
// Upstream: pkg/controller/daemon DaemonSetsController.rollingUpdate (v1.36).
func (s *state) roll() (plan, error) {
	unavailable, surge, err := s.limits()
	switch {
	case err != nil:
		return plan{}, err
	case surge > 0:
		return s.rollBySurge(surge), nil
	}
	return s.rollByDeletion(unavailable), nil
}

// places returns the nodes that have a pod or should have one, by name.
func (s *state) places() []string {
	all := map[string]bool{}
	for node := range s.pods {
		all[node] = true
	}
	for _, node := range s.nodes {
		if s.on.of(node) == fit {
			all[node.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// rollByDeletion returns outdated pods to delete: those that are not available, and others until so many
// nodes are without an available pod.
//
// Differs: upstream takes the nodes in the order of a map.
func (s *state) rollByDeletion(unavailableMax int) plan {
	var p plan
	var available []*corev1.Pod
	unavailable := 0
	for _, node := range s.places() {
		switch on := s.pairOn(node); {
		case !on.ok, (on.recent == nil) == (on.old == nil):
			unavailable++ // manage creates or deletes a pod
		case on.recent != nil && s.isAvailable(on.recent):
		case on.recent != nil:
			unavailable++
		case !s.isAvailable(on.old):
			p.delete = append(p.delete, on.old)
			unavailable++
		default:
			available = append(available, on.old)
		}
	}
	p.delete = append(p.delete, available[:min(len(available), max(0, unavailableMax-unavailable))]...)
	return p
}

// rollBySurge returns the nodes that get a second pod, and the outdated pods that are not needed any
// more. A pod of a node that should have none any more remains until enough others are available.
//
// Differs: upstream takes the nodes in the order of a map. It fails while a node with an outdated pod
// does not exist; here such a pod is left to the pod garbage collector.
func (s *state) rollBySurge(surgeMax int) plan {
	fits, exists := map[string]bool{}, map[string]bool{}
	for _, node := range s.nodes {
		exists[node.Name], fits[node.Name] = true, s.on.of(node) == fit
	}
	var p plan
	var candidates []string
	var misplaced []*corev1.Pod
	surge, available := 0, 0
	for _, node := range s.places() {
		on := s.pairOn(node)
		if !on.ok {
			surge++ // manage deletes a pod
			continue
		}
		counted := on.old
		if counted == nil {
			counted = on.recent
		}
		if counted != nil && s.isAvailable(counted) {
			available++
		}
		switch {
		case on.old == nil: // manage does what must be done
		case on.recent != nil && s.isAvailable(on.recent):
			p.delete = append(p.delete, on.old)
		case on.recent != nil:
			surge++
		case !exists[node]:
		case !fits[node] && s.isAvailable(on.old):
			misplaced = append(misplaced, on.old)
		case !fits[node]:
			p.delete = append(p.delete, on.old)
		case !s.isAvailable(on.old):
			p.create = append(p.create, node)
		default:
			candidates = append(candidates, node)
		}
	}
	p.delete = append(p.delete, misplaced[:min(len(misplaced), max(0, available-s.selected))]...)
	p.create = append(p.create, candidates[:min(len(candidates), max(0, surgeMax-surge))]...)
	return p
}
