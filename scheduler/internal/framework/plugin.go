package framework

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
)

// The range of scores after Normalize.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

// Handle is what a plugin gets from its scheduler.
type Handle struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// A Plugin implements one or more of the interfaces below.
type Plugin interface {
	Name() string
	// Events returns what may make a pod schedulable that this plugin rejected.
	Events() []EventHint
}

// A PreEnqueuer keeps pods out of the active queue.
type PreEnqueuer interface {
	Plugin
	// PreEnqueue returns why a pod must not be tried now, nil if it may be.
	PreEnqueue(pod *corev1.Pod) *Status
}

// A PreFilterer looks at a pod before the nodes.
type PreFilterer interface {
	Plugin
	// PreFilter prepares Filter. nodes are the names of the only nodes that are eligible; nil: all.
	PreFilter(cycle *Cycle) (nodes sets.Set[string], status *Status)
}

// A PodChanger updates its state of a cycle for a pod that would come to a node or leave it: what if this
// pod were preempted?
type PodChanger interface {
	AddPod(cycle *Cycle, pod *PodInfo, node *NodeInfo) *Status
	RemovePod(cycle *Cycle, pod *PodInfo, node *NodeInfo) *Status
}

// A Filterer says whether a node can run the pod.
type Filterer interface {
	Plugin
	Filter(cycle *Cycle, node *NodeInfo) *Status
}

// A PostFilterer makes room for a pod that fits nowhere.
type PostFilterer interface {
	Plugin
	// PostFilter returns the node on which there will be room, "" if there is none. clear says that an
	// earlier nomination ends.
	PostFilter(ctx context.Context, cycle *Cycle, why *Diagnosis) (nominated string, clear bool, status *Status)
}

// A Scorer ranks the nodes that can run the pod.
type Scorer interface {
	Plugin
	// PreScore prepares Score.
	PreScore(cycle *Cycle, nodes []*NodeInfo) *Status
	Score(cycle *Cycle, node *NodeInfo) (int64, *Status)
	// Normalize brings the scores, one for each node, to the range from MinScore to MaxScore.
	Normalize(cycle *Cycle, scores []int64) *Status
}

// A Reserver takes in memory what the pod needs on its node, and gives it back.
type Reserver interface {
	Plugin
	Reserve(cycle *Cycle, node string) *Status
	Unreserve(cycle *Cycle, node string)
}

// A PreBinder does what must be done before the pod is assigned to its node.
type PreBinder interface {
	Plugin
	// PreBindPreFlight returns nil if PreBind has something to do, and Skip if not. Other statuses are errors.
	PreBindPreFlight(cycle *Cycle, node string) *Status
	// PreBind writes what is missing. It reports whether it is done. Otherwise it is called again when
	// the scheduler is asked to; see Waker.
	PreBind(ctx context.Context, cycle *Cycle, node string) (done bool, status *Status)
}

// A Waker has PreBind called again.
type Waker interface {
	// OnWake sets the function that a plugin calls when PreBind of a pod may be done.
	OnWake(wake func(pod *corev1.Pod))
}
