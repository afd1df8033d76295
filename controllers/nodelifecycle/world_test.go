package nodelifecycle_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/nodelifecycle"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	*testworld.World
	process *sim.Process
	failing *int // number of requests for pods that fail
}

// failing fails a process's first n requests for pods.
type failing struct {
	sim.Caller
	n *int
}

func (f failing) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Caller.Call(action, func() trace.Outcome {
		if *f.n > 0 && strings.HasPrefix(action.Object, "pods/") {
			*f.n--
			return trace.Outcome{Err: apierrors.NewTooManyRequests("later", 1)}
		}
		return effect()
	})
}

// newWorld returns a world with a controller that monitors all nodes or, with the filters of a
// cluster, those with Leases.
func newWorld(t testing.TB, leasedOnly bool) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 20000}), failing: new(int)}
	w.start(leasedOnly)
	return w
}

func (w *world) start(leasedOnly bool) {
	w.process = w.Host.Process("nodelifecycle")
	client := w.Server.Client(failing{w.process, w.failing})
	cfg := nodelifecycle.Config{
		Process: w.process, Client: client, Informers: w.Server.Informers(w.process), LeasedOnly: leasedOnly,
		Recorder: events.New(events.Config{Process: w.process, Client: client, Source: nodelifecycle.EventSource}),
	}
	if leasedOnly {
		match := func(old, obj fake.Object) bool { return nodelifecycle.Concerns(cfg.Informers, old, obj) }
		cfg.Informers = w.Server.Informers(w.process, fake.Filter{Resource: "leases", Match: match},
			fake.Filter{Resource: "nodes", Match: match}, fake.Filter{Resource: "pods", Match: match})
	}
	nodelifecycle.New(cfg)
}

// crash replaces the process by a new one.
func (w *world) crash(leasedOnly bool) {
	w.Host.Crash(w.process)
	w.Server.RemoveComponent(w.process)
	w.start(leasedOnly)
}

// node stores a node with a condition Ready, unless it is "".
func (w *world) node(name string, ready corev1.ConditionStatus, change ...func(node *corev1.Node)) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ready != "" {
		node.Status.Conditions = []corev1.NodeCondition{w.conditionNow(corev1.NodeReady, ready)}
	}
	for _, f := range change {
		f(node)
	}
	w.NoError(w.Server.Add(node))
}

func (w *world) conditionNow(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
	now := metav1.NewTime(w.Host.Now())
	return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: now, LastTransitionTime: now}
}

// change changes a stored node.
func (w *world) change(name string, change func(node *corev1.Node)) {
	w.Server.UpdateStored("nodes", "", name, func(stored fake.Object) fake.Object {
		node := stored.(*corev1.Node).DeepCopy()
		change(node)
		return node
	})
}

// report sets the condition Ready, as a kubelet does.
func (w *world) report(name string, ready corev1.ConditionStatus) {
	w.change(name, func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{w.conditionNow(corev1.NodeReady, ready)}
	})
}

// renew creates or renews the Lease of a node.
func (w *world) renew(name string) {
	now := metav1.NewMicroTime(w.Host.Now())
	if _, has := w.Server.Get("leases", corev1.NamespaceNodeLease, name); !has {
		w.NoError(w.Server.Add(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
		}))
		return
	}
	w.Server.UpdateStored("leases", corev1.NamespaceNodeLease, name, func(stored fake.Object) fake.Object {
		lease := stored.(*coordinationv1.Lease).DeepCopy()
		lease.Spec.RenewTime = &now
		return lease
	})
}

// pod stores a pod whose condition Ready is True, unless ready is "".
func (w *world) pod(name, node string, ready corev1.ConditionStatus) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.NodeName = node
	if ready != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	}
	w.NoError(w.Server.Add(pod))
}

// pass lets time pass, and settles.
func (w *world) pass(d time.Duration) {
	end := w.Host.Now().Add(d)
	clock := w.Host.Process("clock")
	clock.Spawn("pass", func(context.Context) { clock.Sleep(d) })
	w.Until("time", func() bool { return !w.Host.Now().Before(end) && !w.Host.Busy() })
}

// readiness returns the state of a node as "Unknown:Reason", and its taints as "key:Effect", sorted.
func (w *world) readiness(name string) string {
	obj, ok := w.Server.Get("nodes", "", name)
	if !ok {
		return "gone"
	}
	node := obj.(*corev1.Node)
	text := "none"
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			text = strings.TrimSuffix(string(c.Status)+":"+c.Reason, ":")
		}
	}
	if taints := taintsOf(node); taints != "" {
		text += " " + taints
	}
	return text
}

func taintsOf(node *corev1.Node) string {
	var taints []string
	for _, t := range node.Spec.Taints {
		taints = append(taints, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	slices.Sort(taints)
	return strings.Join(taints, " ")
}

// taintTimes returns when nodes got a taint with effect NoExecute, as "node-1@50s", in order.
func (w *world) taintTimes() string {
	var times []string
	for _, r := range w.Host.Log().Records() {
		after, is := r.After.(*corev1.Node)
		before, had := r.Before.(*corev1.Node)
		if is && had && noExecute(after) && !noExecute(before) {
			times = append(times, after.Name+"@"+r.At.String())
		}
	}
	return strings.Join(times, " ")
}

func noExecute(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// unready returns the pods whose condition Ready is False, sorted.
func (w *world) unready() string {
	var names []string
	for _, obj := range w.Server.List("pods") {
		for _, c := range obj.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
				names = append(names, obj.GetName())
			}
		}
	}
	return strings.Join(names, " ")
}

// events returns the events in order, as "Reason object".
func (w *world) events() string {
	var all []*corev1.Event
	for _, obj := range w.Server.List("events") {
		all = append(all, obj.(*corev1.Event))
	}
	slices.SortFunc(all, func(a, b *corev1.Event) int {
		return cmp.Or(len(a.ResourceVersion)-len(b.ResourceVersion), strings.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	var words []string
	for _, e := range all {
		words = append(words, fmt.Sprintf("%s %s", e.Reason, e.InvolvedObject.Name))
	}
	return strings.Join(words, ", ")
}
