package interpodaffinity

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

const filterKey = "PreFilter" + Name

// A domain is the nodes with a value of a label.
type domain struct{ key, value string }

// counts is how many pods match terms, by domain; of pods that match several, each term counts.
type counts map[domain]int

func (c counts) add(node *corev1.Node, key string, n int) {
	value, ok := node.Labels[key]
	if !ok {
		return
	}
	d := domain{key, value}
	if c[d] += n; c[d] == 0 {
		delete(c, d)
	}
}

// filterState is where there are pods that matter to the pod of the cycle.
type filterState struct {
	affinity, antiAffinity []framework.AffinityTerm // of the pod
	namespace              labels.Set               // labels of its namespace

	near      counts // pods that match all terms of affinity
	away      counts // pods that match a term of antiAffinity
	unwelcome counts // pods with an anti-affinity that matches the pod
}

// Clone returns a copy whose numbers can be changed.
func (s *filterState) Clone() any {
	clone := *s
	clone.near, clone.away, clone.unwelcome = maps.Clone(s.near), maps.Clone(s.away), maps.Clone(s.unwelcome)
	return &clone
}

// PreFilter counts the pods that matter. It skips the plugin if the pod has no required terms, and no pod has
// anything against it.
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	if err := invalidTerms(cycle.Pod); err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %+v", err))
	}
	hasTerms := len(cycle.Pod.RequiredAffinity)+len(cycle.Pod.RequiredAntiAffinity) > 0
	if !hasTerms && !hasAntiAffinity(cycle.Snapshot) {
		return nil, framework.SkipCycle
	}
	s := &filterState{near: counts{}, away: counts{}, unwelcome: counts{}, namespace: p.labelsOf(cycle.APIPod().Namespace)}
	var err error
	if s.affinity, err = p.resolvedAll(cycle.Pod.RequiredAffinity); err != nil {
		return nil, framework.AsStatus(err)
	}
	if s.antiAffinity, err = p.resolvedAll(cycle.Pod.RequiredAntiAffinity); err != nil {
		return nil, framework.AsStatus(err)
	}
	for _, node := range cycle.Snapshot.Nodes() {
		for _, pod := range node.WithRequiredAntiAffinity {
			s.countUnwelcome(cycle.APIPod(), pod, node.Node, 1)
		}
		if hasTerms {
			for _, pod := range node.Pods {
				s.countTerms(pod.Pod, node.Node, 1)
			}
		}
	}
	if !hasTerms && len(s.unwelcome) == 0 {
		return nil, framework.SkipCycle
	}
	cycle.Write(filterKey, s)
	return nil, nil
}

// invalidTerms returns the error of a pod whose terms could not be parsed.
func invalidTerms(info *framework.PodInfo) error {
	affinity := info.Pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	wanted, parsed := 0, len(info.RequiredAffinity)+len(info.PreferredAffinity)+len(info.RequiredAntiAffinity)+len(info.PreferredAntiAffinity)
	if a := affinity.PodAffinity; a != nil {
		wanted += len(a.RequiredDuringSchedulingIgnoredDuringExecution) + len(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		wanted += len(a.RequiredDuringSchedulingIgnoredDuringExecution) + len(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if wanted == parsed {
		return nil
	}
	_, err := framework.NewPodInfo(info.Pod)
	return err
}

func hasAntiAffinity(snapshot *framework.Snapshot) bool {
	for _, node := range snapshot.Nodes() {
		if len(node.WithRequiredAntiAffinity) > 0 {
			return true
		}
	}
	return false
}

// countUnwelcome counts the anti-affinity of another pod.
func (s *filterState) countUnwelcome(pod *corev1.Pod, other *framework.PodInfo, node *corev1.Node, n int) {
	for i := range other.RequiredAntiAffinity {
		if term := &other.RequiredAntiAffinity[i]; term.Matches(pod, s.namespace) {
			s.unwelcome.add(node, term.TopologyKey, n)
		}
	}
}

// countTerms counts another pod for the terms of the pod.
func (s *filterState) countTerms(other *corev1.Pod, node *corev1.Node, n int) {
	if matchesAll(s.affinity, other) {
		for i := range s.affinity {
			s.near.add(node, s.affinity[i].TopologyKey, n)
		}
	}
	for i := range s.antiAffinity {
		if s.antiAffinity[i].Matches(other, nil) {
			s.away.add(node, s.antiAffinity[i].TopologyKey, n)
		}
	}
}

// AddPod counts one more pod.
func (p *Plugin) AddPod(cycle *framework.Cycle, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	p.change(cycle, pod, node.Node, 1)
	return nil
}

// RemovePod counts one pod less.
func (p *Plugin) RemovePod(cycle *framework.Cycle, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	p.change(cycle, pod, node.Node, -1)
	return nil
}

func (p *Plugin) change(cycle *framework.Cycle, pod *framework.PodInfo, node *corev1.Node, by int) {
	if s, _ := cycle.Read(filterKey).(*filterState); s != nil {
		s.countUnwelcome(cycle.APIPod(), pod, node, by)
		s.countTerms(pod.Pod, node, by)
	}
}

// Filter rejects a node whose domains lack pods that the pod must be near, or have pods that it must be away from
// or that do not want it.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	s, _ := cycle.Read(filterKey).(*filterState)
	switch {
	case s == nil:
		return nil
	case !s.isNear(cycle.APIPod(), node.Node):
		return p.unfit
	case !s.isAway(node.Node):
		return p.antiUnfit
	case !s.isWelcome(node.Node):
		return p.existingUnfit
	default:
		return nil
	}
}

// isNear reports whether each domain of the affinity has pods that match. The first pod of several that must be near each
// other may be anywhere.
func (s *filterState) isNear(pod *corev1.Pod, node *corev1.Node) bool {
	missing := false
	for i := range s.affinity {
		key := s.affinity[i].TopologyKey
		value, ok := node.Labels[key]
		if !ok {
			return false
		}
		missing = missing || s.near[domain{key, value}] <= 0
	}
	return !missing || len(s.near) == 0 && matchesAll(s.affinity, pod)
}

func (s *filterState) isAway(node *corev1.Node) bool {
	for i := range s.antiAffinity {
		key := s.antiAffinity[i].TopologyKey
		if value, ok := node.Labels[key]; ok && s.away[domain{key, value}] > 0 {
			return false
		}
	}
	return true
}

func (s *filterState) isWelcome(node *corev1.Node) bool {
	if len(s.unwelcome) == 0 {
		return true
	}
	for key, value := range node.Labels { // the order does not matter
		if s.unwelcome[domain{key, value}] > 0 {
			return false
		}
	}
	return true
}
