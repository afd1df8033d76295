package invariant

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about preemption.
var preemptionRules = []builtIn{
	{"I58", "a pod preempted although no waiting pod of a higher priority can take its place", nodeRule(beginPreemptions)},
}

// schedulerComponent is the component that preempts pods.
const schedulerComponent = "scheduler"

// A preemptionTracker is the state of I58. The scheduler may decide by an earlier state, so only what it
// must have known counts: its own assignments before the waiting pod was created, and the most that a
// node ever had. Nothing is checked after a restart with old lists.
type preemptionTracker struct {
	*Checker
	outdated bool
	waiting  map[types.UID]*corev1.Pod      // without a node as far as the scheduler knows; as created
	assigned map[types.UID]*corev1.Pod      // by the scheduler, as it was then
	highest  map[string]corev1.ResourceList // allocatable resources, by node
}

// beginPreemptions checks that the scheduler preempts a pod only if a pod of a higher priority waits that
// may preempt others, and that has room on the node with the pods that must stay there. Of what it needs
// there, only the resources of every node are compared.
func beginPreemptions(c *Checker) watcher {
	t := &preemptionTracker{
		Checker: c, waiting: map[types.UID]*corev1.Pod{}, assigned: map[types.UID]*corev1.Pod{},
		highest: map[string]corev1.ResourceList{},
	}
	for _, obj := range c.API.List("nodes") {
		t.addNode(obj.(*corev1.Node))
	}
	for _, obj := range c.API.List("pods") {
		t.addPod(obj.(*corev1.Pod))
	}
	return watcher{
		commits: []string{"nodes", "pods"},
		commit: func(e fake.Commit) {
			switch obj := e.After.(type) {
			case *corev1.Node:
				t.addNode(obj)
			case *corev1.Pod:
				if e.Before == nil {
					t.addPod(obj)
				}
			}
		},
		writes: []string{"pods"},
		write:  t.write,
		event: func(r trace.Record) {
			t.outdated = t.outdated || r.Verb == "crash" && strings.HasPrefix(r.Object, schedulerComponent+" with ")
		},
	}
}

func (t *preemptionTracker) addNode(node *corev1.Node) {
	highest := t.highest[node.Name]
	if highest == nil {
		highest = corev1.ResourceList{}
		t.highest[node.Name] = highest
	}
	for name, amount := range node.Status.Allocatable {
		if known, ok := highest[name]; !ok || known.Cmp(amount) < 0 {
			highest[name] = amount
		}
	}
}

func (t *preemptionTracker) addPod(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		t.waiting[pod.UID] = pod
	}
}

// write observes the scheduler's assignments and preemptions. It does not know of an assignment whose
// response was lost.
func (t *preemptionTracker) write(r trace.Record) {
	before, _ := r.Before.(*corev1.Pod)
	after, _ := r.After.(*corev1.Pod)
	if before == nil || after == nil || componentOf(r.Task) != schedulerComponent {
		return
	}
	switch {
	case r.Verb == "delete" && tookEffect(r) && !t.outdated:
		if before.DeletionTimestamp == nil && !t.makesRoom(before) {
			t.report("I58", "%s preempted pod %s/%s of priority %d",
				r.Task, before.Namespace, before.Name, schedulinghelpers.PodPriority(before))
		}
	case r.Err == nil && before.Spec.NodeName == "" && after.Spec.NodeName != "":
		delete(t.waiting, after.UID)
		t.assigned[after.UID] = after
	}
}

// makesRoom reports whether a waiting pod may take the place of a victim. A victim that the scheduler is
// still assigning may be on any node.
func (t *preemptionTracker) makesRoom(victim *corev1.Pod) bool {
	for _, pod := range t.waiting {
		never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
		if never || schedulinghelpers.PodPriority(pod) <= schedulinghelpers.PodPriority(victim) {
			continue
		}
		for node := range t.highest {
			if (victim.Spec.NodeName == "" || victim.Spec.NodeName == node) && t.hasRoom(pod, node) {
				return true
			}
		}
	}
	return false
}

// hasRoom reports whether a node has room for a waiting pod and for the pods that it cannot preempt. A node
// that reports no resources has no limits.
func (t *preemptionTracker) hasRoom(waiting *corev1.Pod, node string) bool {
	if len(t.highest[node]) == 0 {
		return true
	}
	needed := requestsOf(waiting)
	for _, obj := range t.API.List("pods") {
		pod := obj.(*corev1.Pod)
		known := t.assigned[pod.UID]
		stays := known != nil && pod.Spec.NodeName == node && pod.Generation == known.Generation && !hasEnded(pod) &&
			revisionOf(known.ResourceVersion) < revisionOf(waiting.ResourceVersion) &&
			schedulinghelpers.PodPriority(pod) >= schedulinghelpers.PodPriority(waiting)
		if !stays {
			continue
		}
		for name, amount := range requestsOf(pod) {
			sum := needed[name]
			sum.Add(amount)
			needed[name] = sum
		}
	}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods,
	} {
		amount, has := needed[name], t.highest[node][name]
		if has.Cmp(amount) < 0 {
			return false
		}
	}
	return true
}

// requestsOf returns what a pod requests, itself included.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}
