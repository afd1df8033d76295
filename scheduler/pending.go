package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// pendingPods are the pods without a node, indexed by claim.
type pendingPods struct {
	pods  map[cache.ObjectName]*corev1.Pod
	users map[cache.ObjectName]map[cache.ObjectName]struct{} // by claim
}

func newPendingPods() pendingPods {
	return pendingPods{
		pods:  map[cache.ObjectName]*corev1.Pod{},
		users: map[cache.ObjectName]map[cache.ObjectName]struct{}{},
	}
}

func (p *pendingPods) put(pod *corev1.Pod) {
	key := cache.MetaObjectToName(pod)
	p.remove(key)
	p.pods[key] = pod
	for _, name := range claimNames(pod) {
		claim := cache.NewObjectName(pod.Namespace, name)
		if p.users[claim] == nil {
			p.users[claim] = map[cache.ObjectName]struct{}{}
		}
		p.users[claim][key] = struct{}{}
	}
}

func (p *pendingPods) remove(key cache.ObjectName) {
	pod, ok := p.pods[key]
	if !ok {
		return
	}
	delete(p.pods, key)
	for _, name := range claimNames(pod) {
		claim := cache.NewObjectName(pod.Namespace, name)
		delete(p.users[claim], key)
		if len(p.users[claim]) == 0 {
			delete(p.users, claim)
		}
	}
}

// all returns the keys of the pods, sorted.
func (p *pendingPods) all() []cache.ObjectName { return sorted(p.pods) }

// using returns the keys of the pods that use a claim, sorted.
func (p *pendingPods) using(claim cache.ObjectName) []cache.ObjectName { return sorted(p.users[claim]) }

func sorted[V any](m map[cache.ObjectName]V) []cache.ObjectName {
	return slices.SortedFunc(maps.Keys(m), func(a, b cache.ObjectName) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}
