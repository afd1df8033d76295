package nodeaffinity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "NodeAffinity"

const (
	reasonPod      = "node(s) didn't match Pod's node affinity/selector"
	reasonEnforced = "node(s) didn't match scheduler-enforced node affinity"
	reasonConflict = "pod affinity terms conflict"
)

// Plugin rejects nodes that the pod does not select, and prefers those that it prefers.
type Plugin struct {
	required       *nodeaffinity.NodeSelector             // added, or nil
	preferred      *nodeaffinity.PreferredSchedulingTerms // added, or nil
	unfit, refused *framework.Status
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
	_ framework.Scorer      = (*Plugin)(nil)
)

// New returns the plugin.
func New(_ framework.Handle, args *configv1.NodeAffinityArgs) (*Plugin, error) {
	p := &Plugin{
		unfit:   framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonPod),
		refused: framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonEnforced),
	}
	if args.AddedAffinity == nil {
		return p, nil
	}
	var err error
	if terms := args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; terms != nil {
		if p.required, err = nodeaffinity.NewNodeSelector(terms); err != nil {
			return nil, fmt.Errorf("parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	if terms := args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		if p.preferred, err = nodeaffinity.NewPreferredSchedulingTerms(terms); err != nil {
			return nil, fmt.Errorf("parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	return p, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

const filterKey, scoreKey = "PreFilter" + Name, "PreScore" + Name

// PreFilter parses what the pod requires. It returns the names of nodes if each term has some.
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	pod := cycle.APIPod()
	required := requiredTerms(pod)
	if required == nil && p.required == nil && pod.Spec.NodeSelector == nil {
		return nil, framework.SkipCycle
	}
	parsed := nodeaffinity.GetRequiredNodeAffinity(pod)
	cycle.Write(filterKey, &parsed)
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		return nil, nil
	}
	names := namedNodes(required.NodeSelectorTerms)
	if names != nil && len(names) == 0 {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonConflict)
	}
	return names, nil
}

func requiredTerms(pod *corev1.Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// namedNodes returns the names of the nodes that the terms name by metadata.name. It is nil if a term names
// none, so that all nodes are eligible, and empty if no node has all names of a term.
func namedNodes(terms []corev1.NodeSelectorTerm) sets.Set[string] {
	var all sets.Set[string]
	for _, term := range terms {
		var names sets.Set[string]
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if values := sets.New(r.Values...); names == nil {
				names = values
			} else {
				names = names.Intersection(values)
			}
		}
		if names == nil {
			return nil
		}
		all = all.Union(names)
	}
	return all
}

// Filter rejects a node that the pod or the configuration does not select.
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if p.required != nil && !p.required.Match(node.Node) {
		return p.refused
	}
	required, _ := cycle.Read(filterKey).(*nodeaffinity.RequiredNodeAffinity)
	if required == nil {
		return nil
	}
	if match, _ := required.Match(node.Node); !match { // terms that do not parse do not match
		return p.unfit
	}
	return nil
}

// PreScore parses what the pod prefers.
func (p *Plugin) PreScore(cycle *framework.Cycle, _ []*framework.NodeInfo) *framework.Status {
	affinity := cycle.APIPod().Spec.Affinity
	none := affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution == nil
	if none {
		if p.preferred == nil {
			return framework.SkipCycle
		}
		return nil
	}
	preferred, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return framework.AsStatus(err)
	}
	cycle.Write(scoreKey, preferred)
	return nil
}

// Score returns the sum of the weights of the terms that match.
func (p *Plugin) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	var sum int64
	if p.preferred != nil {
		sum += p.preferred.Score(node.Node)
	}
	if preferred, _ := cycle.Read(scoreKey).(*nodeaffinity.PreferredSchedulingTerms); preferred != nil {
		sum += preferred.Score(node.Node)
	}
	return sum, nil
}

// Normalize scales the scores.
func (*Plugin) Normalize(_ *framework.Cycle, scores []int64) *framework.Status {
	framework.ScaleScores(scores, false)
	return nil
}

// Events returns the changes of nodes that make a difference.
func (p *Plugin) Events() []framework.EventHint {
	return []framework.EventHint{{
		Resource: framework.Node, Action: framework.Add | framework.UpdateNodeLabel, Hint: p.isSelected,
	}}
}

// isSelected reports whether a node is selected that was not.
func (p *Plugin) isSelected(pod *corev1.Pod, old, new any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	if is == nil || p.required != nil && !p.required.Match(is) {
		return false
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	if match, err := required.Match(is); err != nil || !match {
		return err != nil
	}
	if was == nil {
		return true
	}
	matched, err := required.Match(was)
	return err != nil || !matched
}
