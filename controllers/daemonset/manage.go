package daemonset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volsim/volsim/internal/workload"
)

// generationLabel is the label of a pod with the number of its template.
//
// Upstream: k8s.io/api/extensions/v1beta1 DaemonSetTemplateGenerationKey.
const generationLabel = "pod-template-generation"

// burst is the number of pods that are created or deleted at once.
//
// Upstream: pkg/controller/daemon BurstReplicas (v1.36).
const burst = 250

// A state is what a decision about a set depends on.
type state struct {
	set      *appsv1.DaemonSet
	nodes    []*corev1.Node // by name
	pods     map[string][]*corev1.Pod
	on       selection
	hash     string // of the present template
	selected int    // how many nodes should have a pod
	now      time.Time

	// mayDelete reports whether the back-off of a failed pod has ended.
	mayDelete func(pod *corev1.Pod, node string) bool
	report    func(eventType, reason, message string)
}

// A plan is what must be done about the pods of a set.
type plan struct {
	create []string // on these nodes
	delete []*corev1.Pod
}

// newState returns a state without the functions that its decisions call. Pods that have ended and are
// being deleted do not count.
//
// Upstream: pkg/controller/daemon DaemonSetsController.getNodesToDaemonPods, updatedDesiredNodeCounts
// (v1.36).
func newState(set *appsv1.DaemonSet, nodes []*corev1.Node, pods []*corev1.Pod, hash string, now time.Time) *state {
	s := &state{set: set, nodes: nodes, pods: map[string][]*corev1.Pod{}, on: newSelection(set), hash: hash, now: now}
	for _, pod := range pods {
		if workload.HasEnded(pod) && workload.IsTerminating(pod) {
			continue
		}
		if node, err := nodeOf(pod); err == nil { // a pod without a node is left alone
			s.pods[node] = append(s.pods[node], pod)
		}
	}
	for _, node := range nodes {
		if s.on.of(node) == fit {
			s.selected++
		}
	}
	return s
}

// surges reports whether a set may have two pods on a node.
//
// Upstream: pkg/controller/daemon/util AllowsSurge (v1.36).
func surges(set *appsv1.DaemonSet) bool {
	surge, err := share(set, 1, func(r *appsv1.RollingUpdateDaemonSet) *intstr.IntOrString { return r.MaxSurge })
	return err == nil && surge > 0
}

// share returns a number of a rolling update, for so many nodes; 0 without one.
//
// Upstream: pkg/controller/daemon/util SurgeCount, UnavailableCount (v1.36).
func share(set *appsv1.DaemonSet, nodes int, of func(*appsv1.RollingUpdateDaemonSet) *intstr.IntOrString) (int, error) {
	strategy := set.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || strategy.RollingUpdate == nil || of(strategy.RollingUpdate) == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(of(strategy.RollingUpdate), nodes, true)
}

// manage returns which nodes need a pod, and which pods must go: those that have ended, those of nodes
// that should have none, all but one of each other node, and those that wait for a node that is gone.
//
// Upstream: pkg/controller/daemon DaemonSetsController.manage (v1.36).
func (s *state) manage() plan {
	var p plan
	exists := map[string]bool{}
	for _, node := range s.nodes {
		exists[node.Name] = true
		s.manageNode(node, &p)
	}
	for _, node := range slices.Sorted(maps.Keys(s.pods)) {
		for _, pod := range s.pods[node] {
			if !exists[node] && pod.Spec.NodeName == "" && !workload.IsTerminating(pod) {
				p.delete = append(p.delete, pod)
			}
		}
	}
	return p
}

// manageNode adds what must be done on a node.
//
// Upstream: pkg/controller/daemon DaemonSetsController.podsShouldBeOnNode (v1.36).
func (s *state) manageNode(node *corev1.Node, p *plan) {
	what, pods := s.on.of(node), s.pods[node.Name]
	if what == fit && len(pods) == 0 {
		p.create = append(p.create, node.Name)
		return
	}
	pods = slices.DeleteFunc(slices.Clone(pods), workload.IsTerminating)
	if what == unfit {
		p.delete = append(p.delete, pods...)
		return
	}
	var running []*corev1.Pod
	for _, pod := range pods {
		switch pod.Status.Phase {
		case corev1.PodFailed:
			if s.mayDelete(pod, node.Name) {
				s.report(corev1.EventTypeWarning, "FailedDaemonPod", fmt.Sprintf(
					"Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node.Name))
				p.delete = append(p.delete, pod)
			}
		case corev1.PodSucceeded:
			s.report(corev1.EventTypeNormal, "SucceededDaemonPod", fmt.Sprintf(
				"Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node.Name))
			p.delete = append(p.delete, pod)
		default:
			running = append(running, pod)
		}
	}
	slices.SortStableFunc(running, older)
	switch {
	case !surges(s.set):
		p.delete = append(p.delete, running[min(1, len(running)):]...)
	case len(running) == 0 && what == fit:
		p.create = append(p.create, node.Name)
	case len(running) > 1:
		p.delete = append(p.delete, s.surplus(running)...)
	}
}

// surplus returns which pods of a node with a surge must go. The oldest of the present template and the
// oldest of another one remain while the new one is not available and the old one is ready.
func (s *state) surplus(running []*corev1.Pod) []*corev1.Pod {
	var recent, old *corev1.Pod
	var surplus []*corev1.Pod
	for _, pod := range running {
		switch {
		case pod.Labels[hashLabel] == s.hash && recent == nil:
			recent = pod
		case pod.Labels[hashLabel] != s.hash && old == nil:
			old = pod
		default:
			surplus = append(surplus, pod)
		}
	}
	if recent != nil && old != nil && (workload.Ready(old) == nil || s.isAvailable(recent)) {
		surplus = append(surplus, old)
	}
	return surplus
}

func (s *state) isAvailable(pod *corev1.Pod) bool {
	return workload.IsAvailable(pod, s.set.Spec.MinReadySeconds, s.now)
}

// older compares pods: those on a node are first, then older ones.
//
// Upstream: pkg/controller/daemon podByCreationTimestampAndPhase (v1.36).
func older(a, b *corev1.Pod) int {
	if (a.Spec.NodeName == "") != (b.Spec.NodeName == "") {
		return strings.Compare(b.Spec.NodeName, a.Spec.NodeName) // "" is last
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// carryOut creates and deletes pods.
//
// Upstream: pkg/controller/daemon DaemonSetsController.syncNodes (v1.36).
func (c *controller) carryOut(ctx context.Context, set *appsv1.DaemonSet, hash string, p plan) error {
	template := newTemplate(set, hash)
	next := 0
	_, err := workload.SlowStart(min(len(p.create), burst), func() error {
		pod := workload.NewPod(template, set, setKind)
		pod.Spec.Affinity = nodeAffinity(pod.Spec.Affinity, p.create[next])
		next++
		return c.control.Create(ctx, set, pod)
	})
	for _, pod := range p.delete[:min(len(p.delete), burst)] {
		err = errors.Join(err, c.control.Delete(ctx, set, pod))
	}
	return err
}

// newTemplate returns the template of the pods that are created now.
//
// Upstream: pkg/controller/daemon/util CreatePodTemplate (v1.36).
func newTemplate(set *appsv1.DaemonSet, hash string) *corev1.PodTemplateSpec {
	t := set.Spec.Template.DeepCopy()
	t.Spec.Tolerations = withTolerations(&t.Spec)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	if generation := generationOf(set); generation != "" {
		t.Labels[generationLabel] = generation
	}
	t.Labels[hashLabel] = hash
	return t
}
