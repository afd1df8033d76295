package interpodaffinity

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

const scoreKey = "PreScore" + Name

// scoreState is how much the pod wants to be in a domain.
type scoreState struct {
	affinity, antiAffinity []framework.WeightedAffinityTerm // of the pod
	namespace              labels.Set                       // labels of its namespace
	weights                map[domain]int64                 // negative: away; nil: no term matches
	keys                   []string                         // of weights, sorted
}

// PreScore weighs the domains. It skips the plugin if no term matches.
func (p *Plugin) PreScore(cycle *framework.Cycle, _ []*framework.NodeInfo) *framework.Status {
	if err := invalidTerms(cycle.Pod); err != nil { // PreFilter rejects the pod before
		return framework.AsStatus(fmt.Errorf("failed to parse pod: %w", err))
	}
	hasTerms := len(cycle.Pod.PreferredAffinity)+len(cycle.Pod.PreferredAntiAffinity) > 0
	if !hasTerms && (p.ignoreExisting || !hasAffinity(cycle.Snapshot)) {
		return framework.SkipCycle
	}
	s := &scoreState{namespace: p.labelsOf(cycle.APIPod().Namespace)}
	var err error
	if s.affinity, err = p.resolvedWeighted(cycle.Pod.PreferredAffinity); err != nil {
		return framework.AsStatus(fmt.Errorf("updating PreferredAffinityTerms: %w", err))
	}
	if s.antiAffinity, err = p.resolvedWeighted(cycle.Pod.PreferredAntiAffinity); err != nil {
		return framework.AsStatus(fmt.Errorf("updating PreferredAntiAffinityTerms: %w", err))
	}
	for _, node := range cycle.Snapshot.Nodes() {
		pods := node.WithAffinity
		if hasTerms {
			pods = node.Pods
		}
		for _, pod := range pods {
			s.weigh(p.hardWeight, cycle.APIPod(), pod, node.Node)
		}
	}
	if s.weights == nil {
		return framework.SkipCycle
	}
	for d := range s.weights {
		s.keys = append(s.keys, d.key)
	}
	slices.Sort(s.keys)
	s.keys = slices.Compact(s.keys)
	cycle.Write(scoreKey, s)
	return nil
}

func hasAffinity(snapshot *framework.Snapshot) bool {
	for _, node := range snapshot.Nodes() {
		if len(node.WithAffinity) > 0 {
			return true
		}
	}
	return false
}

// weigh adds the terms that match of the pod and of another one, which is on a node.
func (s *scoreState) weigh(hardWeight int32, pod *corev1.Pod, other *framework.PodInfo, node *corev1.Node) {
	s.addAll(s.affinity, other.Pod, nil, node, 1)
	s.addAll(s.antiAffinity, other.Pod, nil, node, -1)
	if hardWeight > 0 {
		for i := range other.RequiredAffinity {
			s.add(&other.RequiredAffinity[i], pod, s.namespace, node, int64(hardWeight))
		}
	}
	s.addAll(other.PreferredAffinity, pod, s.namespace, node, 1)
	s.addAll(other.PreferredAntiAffinity, pod, s.namespace, node, -1)
}

func (s *scoreState) addAll(terms []framework.WeightedAffinityTerm, pod *corev1.Pod, namespace labels.Set, node *corev1.Node, sign int64) {
	for i := range terms {
		s.add(&terms[i].AffinityTerm, pod, namespace, node, sign*int64(terms[i].Weight))
	}
}

func (s *scoreState) add(term *framework.AffinityTerm, pod *corev1.Pod, namespace labels.Set, node *corev1.Node, weight int64) {
	value, ok := node.Labels[term.TopologyKey]
	if !ok || !term.Matches(pod, namespace) {
		return
	}
	if s.weights == nil {
		s.weights = map[domain]int64{}
	}
	s.weights[domain{term.TopologyKey, value}] += weight
}

// Score returns the sum of the weights of the node's domains.
func (*Plugin) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	s := cycle.Read(scoreKey).(*scoreState)
	var sum int64
	for _, key := range s.keys {
		if value, ok := node.Node.Labels[key]; ok {
			sum += s.weights[domain{key, value}]
		}
	}
	return sum, nil
}

// Normalize gives the lowest sum the lowest score and the highest the highest.
func (*Plugin) Normalize(_ *framework.Cycle, scores []int64) *framework.Status {
	if len(scores) == 0 {
		return nil
	}
	least, most := slices.Min(scores), slices.Max(scores)
	for i, score := range scores {
		scores[i] = framework.MinScore
		if most > least {
			scores[i] = int64(float64(framework.MaxScore) * (float64(score-least) / float64(most-least)))
		}
	}
	return nil
}
