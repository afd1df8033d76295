package invariant

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about DaemonSets.
var daemonSetRules = []builtIn{
	{"I57", "a second pod of a DaemonSet on a node without a surge, or a third one with it, by its controller", workloadRule(beginDaemonPods)},
	{"L15", "a DaemonSet without its pods", workloadRule(beginDaemonSets)},
}

// The component that creates the pods of DaemonSets.
const daemonSetController = "daemonset"

// daemonNode returns the node of a DaemonSet's pod, or the one for which it was created.
func daemonNode(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if pod.Spec.NodeName != "" || affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return pod.Spec.NodeName
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			if r.Key == metav1.ObjectNameField && len(r.Values) == 1 {
				return r.Values[0]
			}
		}
	}
	return ""
}

// daemonPods returns the pods of a set.
func (c *Checker) daemonPods(set *appsv1.DaemonSet) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range c.API.List("pods") {
		if pod := obj.(*corev1.Pod); ownerOf(pod, "DaemonSet") == set.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// podsPerNode returns how many pods of a set its controller may create on a node.
func podsPerNode(set *appsv1.DaemonSet) int32 {
	update := set.Spec.UpdateStrategy.RollingUpdate
	if update == nil || update.MaxSurge == nil || update.MaxSurge.String() == "0" || update.MaxSurge.String() == "0%" {
		return 1
	}
	return 2
}

// beginDaemonPods checks each pod that the controller creates: the pods of its set on its node. Without
// a surge those that are being deleted count until they have ended.
func beginDaemonPods(c *Checker) watcher {
	e := newExcess(c, daemonSetController)
	return watcher{
		commits: []string{"daemonsets"},
		commit:  func(made fake.Commit) { e.note(made, podsPerNode(made.After.(*appsv1.DaemonSet))) },
		event:   e.event,
		writes:  []string{"pods", "daemonsets"},
		write: func(r trace.Record) {
			if set, is := r.After.(*appsv1.DaemonSet); is {
				e.observes(r, set, set.Status.ObservedGeneration)
			}
			after, _ := r.After.(*corev1.Pod)
			if after == nil || r.Before != nil || !e.enlarged(r, after) {
				return
			}
			owner := ownerOf(after, "DaemonSet")
			l := e.limits[owner]
			if l == nil {
				return
			}
			limit, node := l.highest(), daemonNode(after)
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{UID: owner}}
			name := metav1.GetControllerOfNoCopy(after).Name
			pods := slices.DeleteFunc(c.daemonPods(set), func(pod *corev1.Pod) bool {
				ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
				return daemonNode(pod) != node || ended && pod.DeletionTimestamp != nil || limit > 1 && !isReplica(pod) ||
					pod.UID != after.UID && !e.mustKnow(r, after.Namespace+"/"+name, "pods", pod)
			})
			if len(pods) > int(limit) {
				c.report("I57", "%s created pod %s/%s: DaemonSet %s has %d pods on %s, and may have %d",
					r.Task, after.Namespace, after.Name, name, len(pods), node, limit)
			}
		},
	}
}

// beginDaemonSets checks that at rest the controller has observed each set, the nodes that should have a
// pod have one, the others have none, and pods that are all ready have the newest template.
func beginDaemonSets(c *Checker) watcher {
	return watcher{
		rest: func(report func(object, why string)) {
			for _, obj := range c.API.List("daemonsets") {
				set := obj.(*appsv1.DaemonSet)
				if !c.controllers[daemonSetController] || set.DeletionTimestamp != nil {
					continue
				}
				if why := c.missingDaemon(set); why != "" {
					report(fmt.Sprintf("daemonsets/%s/%s", set.Namespace, set.Name), why)
				}
			}
		},
	}
}

// missingDaemon says what a set lacks; "" if it lacks nothing.
func (c *Checker) missingDaemon(set *appsv1.DaemonSet) string {
	if set.Status.ObservedGeneration < set.Generation {
		return unobserved
	}
	on, steady := map[string][]*corev1.Pod{}, true
	for _, pod := range c.daemonPods(set) {
		on[daemonNode(pod)] = append(on[daemonNode(pod)], pod)
		steady = steady && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}
	hash := c.newestHash(set)
	for _, obj := range c.API.List("nodes") {
		node := obj.(*corev1.Node)
		begins, remains := daemonFits(set, node)
		live := slices.DeleteFunc(slices.Clone(on[node.Name]), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		switch {
		case begins && len(on[node.Name]) == 0:
			return "has no pod on " + node.Name
		case !remains && slices.ContainsFunc(live, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }):
			return "has a pod on " + node.Name + ", which should have none"
		case len(live) > int(podsPerNode(set)):
			return fmt.Sprintf("has %d pods on %s", len(live), node.Name)
		case begins && steady && set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType &&
			slices.ContainsFunc(live, func(pod *corev1.Pod) bool { return pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != hash }):
			return "has an outdated pod on " + node.Name
		}
	}
	return ""
}

// newestHash returns the hash of the newest revision of a set.
func (c *Checker) newestHash(set *appsv1.DaemonSet) string {
	newest := &appsv1.ControllerRevision{}
	for _, obj := range c.API.List("controllerrevisions") {
		if r := obj.(*appsv1.ControllerRevision); ownerOf(r, "DaemonSet") == set.UID && cmp.Compare(r.Revision, newest.Revision) > 0 {
			newest = r
		}
	}
	return newest.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
}

// The taints that each pod of a DaemonSet tolerates.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// daemonFits reports whether a set should have a pod on a node, and whether one that is there remains.
func daemonFits(set *appsv1.DaemonSet, node *corev1.Node) (begins, remains bool) {
	spec := &set.Spec.Template.Spec
	matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(node)
	if err != nil || !matches || spec.NodeName != "" && spec.NodeName != node.Name {
		return false, false
	}
	tolerations := slices.Concat(spec.Tolerations, daemonTolerations)
	if spec.HostNetwork {
		tolerations = append(tolerations, corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists})
	}
	begins, remains = true, true
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), tolerations, taint, false) {
			continue
		}
		begins = begins && taint.Effect == corev1.TaintEffectPreferNoSchedule
		remains = remains && taint.Effect != corev1.TaintEffectNoExecute
	}
	return begins, remains
}
