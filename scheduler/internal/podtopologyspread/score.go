package podtopologyspread

import (
	"fmt"
	"math"

	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

const scoreKey = "PreScore" + Name

// scoreState is how many pods the domains of the feasible nodes have, by constraint.
type scoreState struct {
	constraints []constraint
	ignored     []bool           // by feasible node: it does not have all labels
	pods        []map[string]int // by domain; nil for the constraint of host names
	weights     []float64        // of a pod: higher if there are many domains
	needsKeys   bool             // a node without all labels is ignored
}

// PreScore counts the pods of the domains. It skips the plugin if no constraint should hold.
func (p *Plugin) PreScore(cycle *framework.Cycle, nodes []*framework.NodeInfo) *framework.Status {
	pod := cycle.APIPod()
	constraints, err := p.softConstraints(pod)
	if err != nil {
		return framework.AsStatus(fmt.Errorf("calculating preScoreState: %w", err))
	}
	if len(constraints) == 0 || len(cycle.Snapshot.Nodes()) == 0 {
		return framework.SkipCycle
	}
	s := &scoreState{
		constraints: constraints, ignored: make([]bool, len(nodes)), pods: make([]map[string]int, len(constraints)),
		weights: make([]float64, len(constraints)), needsKeys: len(pod.Spec.TopologySpreadConstraints) > 0 || !p.isSystem,
	}
	s.findDomains(nodes)
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, node := range cycle.Snapshot.Nodes() {
		if s.needsKeys && !hasKeys(node.Node, constraints) {
			continue
		}
		for i := range constraints {
			c := &constraints[i]
			domain := node.Node.Labels[c.key]
			if _, ok := s.pods[i][domain]; ok && c.counts(pod, &required, node.Node) {
				s.pods[i][domain] += c.matching(node, pod.Namespace)
			}
		}
	}
	cycle.Write(scoreKey, s)
	return nil
}

// findDomains finds the domains of the feasible nodes, and weighs the constraints by their number.
func (s *scoreState) findDomains(nodes []*framework.NodeInfo) {
	considered := 0
	for i, node := range nodes {
		if s.needsKeys && !hasKeys(node.Node, s.constraints) {
			s.ignored[i] = true
			continue
		}
		considered++
		for i := range s.constraints {
			if c := &s.constraints[i]; !c.isPerHostname {
				if s.pods[i] == nil {
					s.pods[i] = map[string]int{}
				}
				s.pods[i][node.Node.Labels[c.key]] = 0
			}
		}
	}
	for i := range s.constraints {
		domains := len(s.pods[i])
		if s.constraints[i].isPerHostname {
			domains = considered
		}
		s.weights[i] = math.Log(float64(domains + 2))
	}
}

// Score returns the number of pods in the node's domains, weighted: the fewer the better.
func (p *Plugin) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	s := cycle.Read(scoreKey).(*scoreState)
	if s.needsKeys && !hasKeys(node.Node, s.constraints) {
		return 0, nil
	}
	score := 0.0
	for i := range s.constraints {
		c := &s.constraints[i]
		domain, ok := node.Node.Labels[c.key]
		if !ok {
			continue
		}
		pods := s.pods[i][domain]
		if c.isPerHostname {
			pods = c.matching(node, cycle.APIPod().Namespace)
		}
		score += float64(pods)*s.weights[i] + float64(c.skewMax-1)
	}
	return int64(math.Round(score)), nil
}

// Normalize gives the node with the fewest pods the highest score, and nodes that are ignored the lowest.
func (p *Plugin) Normalize(cycle *framework.Cycle, scores []int64) *framework.Status {
	s := cycle.Read(scoreKey).(*scoreState)
	fewest, most := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if !s.ignored[i] {
			fewest, most = min(fewest, score), max(most, score)
		}
	}
	for i, score := range scores {
		switch {
		case s.ignored[i]:
			scores[i] = framework.MinScore
		case most == 0:
			scores[i] = framework.MaxScore
		default:
			scores[i] = framework.MaxScore * (most + fewest - score) / most
		}
	}
	return nil
}
