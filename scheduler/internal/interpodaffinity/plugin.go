package interpodaffinity

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "InterPodAffinity"

const (
	reasonAffinity     = "node(s) didn't match pod affinity rules"
	reasonAntiAffinity = "node(s) didn't match pod anti-affinity rules"
	reasonExisting     = "node(s) didn't satisfy existing pods anti-affinity rules"
)

// Plugin rejects nodes because of pods near them, and prefers others because of pods near those.
type Plugin struct {
	hardWeight     int32
	ignoreExisting bool
	namespaces     corelisters.NamespaceLister

	unfit, antiUnfit, existingUnfit *framework.Status
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.PodChanger  = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
	_ framework.Scorer      = (*Plugin)(nil)
)

// New returns the plugin. It needs the cache of Namespaces.
func New(h framework.Handle, args *configv1.InterPodAffinityArgs) (*Plugin, error) {
	args = args.DeepCopy()
	if err := schedulerconfig.CompleteArgs(args); err != nil {
		return nil, err
	}
	return &Plugin{
		hardWeight: *args.HardPodAffinityWeight, ignoreExisting: args.IgnorePreferredTermsOfExistingPods,
		namespaces:    h.Informers.Core().V1().Namespaces().Lister(),
		unfit:         framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonAffinity),
		antiUnfit:     framework.NewStatus(framework.Unschedulable, reasonAntiAffinity),
		existingUnfit: framework.NewStatus(framework.Unschedulable, reasonExisting),
	}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// labelsOf returns the labels of a namespace.
func (p *Plugin) labelsOf(namespace string) labels.Set {
	found, err := p.namespaces.Get(namespace)
	if err != nil {
		return nil
	}
	return found.Labels
}

// resolved returns a term of the pod of a cycle, with the names of the namespaces that it selects by label.
// Whether it matches a pod does not depend on labels of namespaces any more.
func (p *Plugin) resolved(term framework.AffinityTerm) (framework.AffinityTerm, error) {
	if _, selects := term.NamespaceSelector.Requirements(); !selects || term.NamespaceSelector.Empty() {
		return term, nil // of no namespace, or of all
	}
	selected, err := p.namespaces.List(term.NamespaceSelector)
	if err != nil {
		return term, err
	}
	term.Namespaces = term.Namespaces.Clone()
	for _, namespace := range selected {
		term.Namespaces.Insert(namespace.Name)
	}
	term.NamespaceSelector = labels.Nothing()
	return term, nil
}

func (p *Plugin) resolvedAll(terms []framework.AffinityTerm) ([]framework.AffinityTerm, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	all := make([]framework.AffinityTerm, len(terms))
	for i, term := range terms {
		var err error
		if all[i], err = p.resolved(term); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (p *Plugin) resolvedWeighted(terms []framework.WeightedAffinityTerm) ([]framework.WeightedAffinityTerm, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	all := make([]framework.WeightedAffinityTerm, len(terms))
	for i, term := range terms {
		resolved, err := p.resolved(term.AffinityTerm)
		if err != nil {
			return nil, err
		}
		all[i] = framework.WeightedAffinityTerm{AffinityTerm: resolved, Weight: term.Weight}
	}
	return all, nil
}

// matchesAll reports whether a pod matches each of one or more terms whose namespaces are named.
func matchesAll(terms []framework.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}
