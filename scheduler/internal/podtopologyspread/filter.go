package podtopologyspread

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

const filterKey = "PreFilter" + Name

// filterState is how many pods the domains have, by constraint.
type filterState struct {
	constraints []constraint
	pods        []map[string]int // by domain
	fewest      []int            // the least of pods
	required    nodeaffinity.RequiredNodeAffinity
}

// Clone returns a copy whose numbers can be changed.
func (s *filterState) Clone() any {
	clone := *s
	clone.fewest = slices.Clone(s.fewest)
	clone.pods = slices.Clone(s.pods)
	for i := range clone.pods {
		clone.pods[i] = maps.Clone(clone.pods[i])
	}
	return &clone
}

// findFewest updates the least number of pods of a constraint's domains.
func (s *filterState) findFewest(i int) {
	s.fewest[i] = math.MaxInt32
	for _, n := range s.pods[i] { // the order does not matter
		s.fewest[i] = min(s.fewest[i], n)
	}
}

// PreFilter counts the pods of the domains. It skips the plugin if no constraint must hold.
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	pod := cycle.APIPod()
	constraints, err := p.hardConstraints(pod)
	if err != nil {
		return nil, framework.AsStatus(fmt.Errorf("get constraints from pod: %w", err))
	}
	if len(constraints) == 0 {
		return nil, framework.SkipCycle
	}
	s := &filterState{
		constraints: constraints, pods: make([]map[string]int, len(constraints)), fewest: make([]int, len(constraints)),
		required: nodeaffinity.GetRequiredNodeAffinity(pod),
	}
	for i := range constraints {
		s.pods[i] = map[string]int{}
	}
	for _, node := range cycle.Snapshot.Nodes() {
		if !hasKeys(node.Node, constraints) {
			continue
		}
		for i := range constraints {
			if c := &constraints[i]; c.counts(pod, &s.required, node.Node) {
				s.pods[i][node.Node.Labels[c.key]] += c.matching(node, pod.Namespace)
			}
		}
	}
	for i := range constraints {
		s.findFewest(i)
	}
	cycle.Write(filterKey, s)
	return nil, nil
}

// AddPod counts one more pod.
func (p *Plugin) AddPod(cycle *framework.Cycle, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	p.change(cycle, pod.Pod, node.Node, 1)
	return nil
}

// RemovePod counts one pod less.
func (p *Plugin) RemovePod(cycle *framework.Cycle, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	p.change(cycle, pod.Pod, node.Node, -1)
	return nil
}

func (p *Plugin) change(cycle *framework.Cycle, changed *corev1.Pod, node *corev1.Node, by int) {
	s, _ := cycle.Read(filterKey).(*filterState)
	if s == nil || changed.Namespace != cycle.APIPod().Namespace || !hasKeys(node, s.constraints) {
		return
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		if c.selector.Matches(labels.Set(changed.Labels)) && c.counts(cycle.APIPod(), &s.required, node) {
			s.pods[i][node.Labels[c.key]] += by
			s.findFewest(i)
		}
	}
}

// Filter rejects a node without the label of a constraint, and one whose domain would have too many pods.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	s, _ := cycle.Read(filterKey).(*filterState)
	if s == nil {
		return nil
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := node.Node.Labels[c.key]
		if !ok {
			return p.labelled
		}
		fewest := s.fewest[i]
		if len(s.pods[i]) < c.domainsMin { // the missing ones have none
			fewest = 0
		}
		pods := s.pods[i][domain]
		if c.selector.Matches(labels.Set(cycle.APIPod().Labels)) {
			pods++
		}
		if pods-fewest > c.skewMax {
			return p.skewed
		}
	}
	return nil
}
