package daemonset

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// A verdict says what a set has on a node.
type verdict int

// Nothing should run on an unfit node. On a tainted node a pod remains, and none is created.
const (
	unfit verdict = iota
	tainted
	fit
)

// A selection says on which nodes a set has pods.
type selection struct {
	node        string // the only one; "" is all
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func newSelection(set *appsv1.DaemonSet) selection {
	spec := &set.Spec.Template.Spec
	return selection{
		node:        spec.NodeName,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
		tolerations: withTolerations(spec),
	}
}

// of returns what the set has on a node.
//
// Upstream: pkg/controller/daemon NodeShouldRunDaemonPod (v1.36).
func (s *selection) of(node *corev1.Node) verdict {
	if s.node != "" && s.node != node.Name {
		return unfit
	}
	if match, err := s.affinity.Match(node); err != nil || !match {
		return unfit // an invalid term matches nothing
	}
	out := fit
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule ||
			schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), s.tolerations, taint, false) {
			continue
		}
		if taint.Effect == corev1.TaintEffectNoExecute {
			return unfit
		}
		out = tainted
	}
	return out
}

// withTolerations returns the tolerations of a spec, and those of each pod of a DaemonSet.
//
// Upstream: pkg/controller/daemon/util AddOrUpdateDaemonPodTolerations (v1.36).
func withTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	all := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		all = withToleration(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return all
}

// withToleration returns tolerations with another one, which replaces one of the same key, value,
// effect and operator.
//
// Upstream: pkg/apis/core/v1/helper AddOrUpdateTolerationInPodSpec (v1.36).
func withToleration(all []corev1.Toleration, t corev1.Toleration) []corev1.Toleration {
	if i := slices.IndexFunc(all, func(each corev1.Toleration) bool { return each.MatchToleration(&t) }); i >= 0 {
		all[i] = t
		return all
	}
	return append(all, t)
}

// nodeAffinity returns an affinity that requires a node of this name, and nothing else of nodes.
//
// Upstream: pkg/controller/daemon/util ReplaceDaemonSetPodNodeNameNodeAffinity (v1.36).
func nodeAffinity(affinity *corev1.Affinity, node string) *corev1.Affinity {
	out := affinity.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}
	return out
}

// nodeOf returns the node of a pod: the one on which it is, or the one for which it was created.
//
// Upstream: pkg/controller/daemon/util GetTargetNodeName (v1.36).
func nodeOf(pod *corev1.Pod) (string, error) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, nil
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, r := range term.MatchFields {
				if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
					continue
				}
				if len(r.Values) != 1 {
					return "", fmt.Errorf("the matchFields value of '%s' is not unique for pod %s/%s", r.Key, pod.Namespace, pod.Name)
				}
				return r.Values[0], nil
			}
		}
	}
	return "", fmt.Errorf("no node name found for pod %s/%s", pod.Namespace, pod.Name)
}
