package noderesources

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin Fit.
const Name = "NodeResourcesFit"

// The reasons of resources that every node has, in their order.
var reasons = [...]string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}

// Fit rejects nodes without the resources that the pod requests, and ranks the others.
type Fit struct {
	ignored, ignoredGroups sets.Set[string]
	scorer                 scorer
	rounds                 bool // scores to the nearest; otherwise down
	resources              []configv1.ResourceSpec
	// rejections are the statuses of sets of reasons; twice, since some are resolved by preemption.
	rejections [2 << len(reasons)]*framework.Status
}

var (
	_ framework.Filterer = (*Fit)(nil)
	_ framework.Scorer   = (*Fit)(nil)
)

// NewFit returns the plugin.
func NewFit(_ framework.Handle, args *configv1.NodeResourcesFitArgs) (*Fit, error) {
	args = args.DeepCopy()
	if err := schedulerconfig.CompleteArgs(args); err != nil {
		return nil, err
	}
	return &Fit{
		ignored: sets.New(args.IgnoredResources...), ignoredGroups: sets.New(args.IgnoredResourceGroups...),
		scorer: newScorer(args.ScoringStrategy), rounds: args.ScoringStrategy.Type == configv1.RequestedToCapacityRatio,
		resources: args.ScoringStrategy.Resources,
	}, nil
}

// Name returns the name of the plugin.
func (*Fit) Name() string { return Name }

// Filter rejects a node that does not have the resources. Preemption does not help if it would not have them
// without any pods.
func (f *Fit) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if node.Unlimited {
		return nil
	}
	missing := f.missing(&cycle.Pod.Requests, node)
	switch {
	case missing.set == 0 && missing.scalars == nil:
		return nil
	case missing.scalars != nil:
		return missing.status()
	}
	key := missing.set << 1
	if missing.unresolvable {
		key++
	}
	if f.rejections[key] == nil {
		f.rejections[key] = missing.status()
	}
	return f.rejections[key]
}

// shortage is what a node does not have.
type shortage struct {
	set          int                   // bit i: reasons[i]
	scalars      []corev1.ResourceName // sorted
	unresolvable bool                  // the node is too small
}

func (s *shortage) status() *framework.Status {
	code := framework.Unschedulable
	if s.unresolvable {
		code = framework.UnschedulableAndUnresolvable
	}
	var texts []string
	for i, reason := range reasons {
		if s.set&(1<<i) != 0 {
			texts = append(texts, reason)
		}
	}
	for _, name := range s.scalars {
		texts = append(texts, "Insufficient "+string(name))
	}
	return framework.NewStatus(code, texts...)
}

// check records a shortage of a resource.
func (s *shortage) check(i int, wanted, used, allocatable int64) {
	if wanted > 0 && wanted > allocatable-used {
		s.set |= 1 << i
		s.unresolvable = s.unresolvable || wanted > allocatable
	}
}

func (f *Fit) missing(wanted *framework.Resource, node *framework.NodeInfo) shortage {
	var s shortage
	used, allocatable := &node.Requested, &node.Allocatable
	if int64(len(node.Pods))+1 > allocatable.Pods {
		s.set = 1 // preemption may help
	}
	s.check(1, wanted.MilliCPU, used.MilliCPU, allocatable.MilliCPU)
	s.check(2, wanted.Memory, used.Memory, allocatable.Memory)
	s.check(3, wanted.EphemeralStorage, used.EphemeralStorage, allocatable.EphemeralStorage)
	if len(wanted.Scalar) == 0 {
		return s
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Scalar)) {
		amount := wanted.Scalar[name]
		if amount == 0 || f.isIgnored(name) || amount <= allocatable.Scalar[name]-used.Scalar[name] {
			continue
		}
		s.scalars = append(s.scalars, name)
		s.unresolvable = s.unresolvable || amount > allocatable.Scalar[name]
	}
	return s
}

// isIgnored reports whether the scheduler does not count an extended resource, since an extender does.
func (f *Fit) isIgnored(name corev1.ResourceName) bool {
	if len(f.ignored)+len(f.ignoredGroups) == 0 {
		return false
	}
	group, _, extended := strings.Cut(string(name), "/")
	extended = extended && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return extended && (f.ignored.Has(string(name)) || f.ignoredGroups.Has(group))
}

// PreScore does nothing: what the pod requests is known.
func (*Fit) PreScore(*framework.Cycle, []*framework.NodeInfo) *framework.Status { return nil }

// Score ranks a node by its resources that would be in use with the pod. Containers without requests count
// a default.
func (f *Fit) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	var sum, weights int64
	for i := range f.resources {
		u := usageOf(cycle.Pod, node, corev1.ResourceName(f.resources[i].Name), nonZero)
		if u.allocatable == 0 {
			continue
		}
		if score, counts := f.scorer(u); counts {
			sum += score * f.resources[i].Weight
			weights += f.resources[i].Weight
		}
	}
	switch {
	case weights == 0:
		return 0, nil
	case f.rounds:
		return int64(math.Round(float64(sum) / float64(weights))), nil
	default:
		return sum / weights, nil
	}
}

// Normalize leaves the scores.
func (*Fit) Normalize(*framework.Cycle, []int64) *framework.Status { return nil }
