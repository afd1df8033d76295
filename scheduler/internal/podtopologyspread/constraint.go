package podtopologyspread

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// constraint is a constraint of a pod with its defaults.
type constraint struct {
	skewMax       int
	key           string // of the label of nodes
	selector      labels.Selector
	domainsMin    int
	byAffinity    bool // nodes that the pod does not select do not count
	byTaints      bool // nodes with taints that the pod does not tolerate do not count
	isPerHostname bool
}

// constraintsOf returns those constraints of a list that have an action, nil if there are none.
func constraintsOf(all []corev1.TopologySpreadConstraint, podLabels map[string]string, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var found []constraint
	for i := range all {
		c := &all[i]
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		found = append(found, constraint{
			skewMax: int(c.MaxSkew), key: c.TopologyKey, selector: withKeys(selector, c.MatchLabelKeys, podLabels),
			domainsMin:    int(ptr.Deref(c.MinDomains, 1)),
			byAffinity:    ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor,
			byTaints:      ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor,
			isPerHostname: c.TopologyKey == corev1.LabelHostname,
		})
	}
	return found, nil
}

// withKeys adds the pod's values of label keys to a selector.
func withKeys(selector labels.Selector, keys []string, podLabels map[string]string) labels.Selector {
	same := labels.Set{}
	for _, key := range keys {
		if value, ok := podLabels[key]; ok {
			same[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(same) == 0 || !selectable {
		return selector
	}
	return labels.SelectorFromSet(same).Add(requirements...)
}

// counts reports whether the pods of a node count.
func (c *constraint) counts(pod *corev1.Pod, required *nodeaffinity.RequiredNodeAffinity, node *corev1.Node) bool {
	if c.byAffinity {
		if match, _ := required.Match(node); !match { // terms that do not parse do not match
			return false
		}
	}
	return !c.byTaints || framework.UntoleratedTaint(pod, node) == nil
}

// matching returns how many pods of a namespace on a node the constraint selects. Pods that terminate do not
// count.
func (c *constraint) matching(node *framework.NodeInfo, namespace string) int {
	if c.selector.Empty() {
		return 0
	}
	n := 0
	for _, p := range node.Pods {
		if p.Pod.DeletionTimestamp == nil && p.Pod.Namespace == namespace && c.selector.Matches(labels.Set(p.Pod.Labels)) {
			n++
		}
	}
	return n
}

// hasKeys reports whether a node has the labels of all constraints.
func hasKeys(node *corev1.Node, all []constraint) bool {
	for i := range all {
		if _, ok := node.Labels[all[i].key]; !ok {
			return false
		}
	}
	return true
}
