package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// queueWorld is a queue with the hints of two plugins: "nodes" waits for nodes, "own" for a label of the
// pod, "both" for either.
type queueWorld struct {
	*queue
	t    *testing.T
	host *sim.Stepped
}

func newQueueWorld(t *testing.T) *queueWorld {
	host := sim.NewStepped(sim.SteppedConfig{})
	t.Cleanup(host.Close)
	p := &profile{hints: map[string][]framework.EventHint{}}
	q := newQueue(host.Process("scheduler"), func(*corev1.Pod) *profile { return p }, time.Second, 10*time.Second)
	node := framework.EventHint{Resource: framework.Node, Action: framework.Add}
	own := framework.EventHint{Resource: framework.Pod, Action: framework.UpdatePodLabel, Hint: func(pod *corev1.Pod, _, new any) bool {
		return new.(*corev1.Pod).UID == pod.UID
	}}
	p.hints["nodes"], p.hints["own"] = []framework.EventHint{node}, []framework.EventHint{own}
	p.hints["both"] = []framework.EventHint{node, own}
	return &queueWorld{queue: q, t: t, host: host}
}

func aPod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Priority: &priority},
	}
}

// reject pops the pod of a name, and puts it back.
func (w *queueWorld) reject(name string, by ...string) *queuedPod {
	w.t.Helper()
	p := w.pop()
	if p.pod.Name != name {
		w.t.Fatalf("%s is next, want %s", p.pod.Name, name)
	}
	w.queue.reject(p, p.pod, sets.New(by...))
	return p
}

// order returns the pods that can have a cycle now, in their order. They are in flight afterwards.
func (w *queueWorld) order() string {
	var names []string
	for !w.isEmpty() {
		names = append(names, w.pop().pod.Name)
	}
	return strings.Join(names, " ")
}

func (w *queueWorld) pass(d time.Duration) {
	w.host.SetTime(w.host.Now().Add(d))
	if err := w.host.Run(); err != nil {
		w.t.Fatal(err)
	}
}

var nodeAdded = framework.Event{Resource: framework.Node, Action: framework.Add, New: &corev1.Node{}}

// TestOrder: by priority, and then by time.
func TestOrder(t *testing.T) {
	w := newQueueWorld(t)
	for i, priority := range []int32{0, 5, -1, 5, 0} {
		w.add(aPod(fmt.Sprint("pod-", i), priority))
	}
	if got := w.order(); got != "pod-1 pod-3 pod-0 pod-4 pod-2" {
		t.Error(got)
	}
}

// TestRejectedPodWaits: a pod that was rejected waits for an event of the plugins that rejected it.
func TestRejectedPodWaits(t *testing.T) {
	for _, test := range []struct {
		by   []string
		want string // after a label of it was changed, and after a node was added
	}{
		{[]string{"nodes"}, "/a"},
		{[]string{"own"}, "a/a"},
		{[]string{"own", "nodes"}, "a/a"},
		{[]string{"both"}, "a/a"},
		{[]string{"neither"}, "/"},
	} {
		w := newQueueWorld(t)
		w.add(aPod("a", 0))
		w.reject("a", test.by...)
		labelled := aPod("a", 0)
		labelled.Labels = map[string]string{"role": "x"}
		w.update(w.pods["a"].pod, labelled)
		var got []string
		got = append(got, w.order())
		if got[0] == "a" {
			w.queue.reject(w.pods["a"], labelled, sets.New("nodes"))
		}
		w.happened(nodeAdded)
		if got = append(got, w.order()); strings.Join(got, "/") != test.want {
			t.Errorf("rejected by %v: %q, want %q", test.by, strings.Join(got, "/"), test.want)
		}
	}
}

// TestStatusOfARejectedPod: a change of its status alone does not help a pod.
func TestStatusOfARejectedPod(t *testing.T) {
	w := newQueueWorld(t)
	w.add(aPod("a", 0))
	w.reject("a", "both")
	changed := aPod("a", 0)
	changed.Status.Message = "x"
	w.update(w.pods["a"].pod, changed)
	if got := w.order(); got != "" || w.pods["a"].pod != changed {
		t.Errorf("order %q, pod %v", got, w.pods["a"].pod)
	}
}

// TestEventInFlight: an event during a cycle counts when the pod is rejected.
func TestEventInFlight(t *testing.T) {
	for _, event := range []framework.Event{nodeAdded, {Resource: framework.Node, Action: framework.Delete}} {
		w := newQueueWorld(t)
		w.add(aPod("a", 0))
		p := w.pop()
		w.happened(event)
		w.queue.reject(p, p.pod, sets.New("nodes"))
		if got, want := w.order(), strings.Repeat("a", int(event.Action&framework.Add)); got != want {
			t.Errorf("%v: %q, want %q", event, got, want)
		}
		if len(w.events) > 0 && w.flying == 0 {
			t.Error("events are kept")
		}
	}
}

// TestBackingOff: pods that back off come after the others, by the end of their back-off, and need not
// wait for it.
func TestBackingOff(t *testing.T) {
	w := newQueueWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.add(aPod(name, 0))
	}
	w.reject("a", "nodes")
	w.reject("b", "nodes")
	w.happened(nodeAdded)
	w.reject("c", "nodes")
	w.reject("a", "nodes") // for the second time: 2 s
	w.happened(nodeAdded)
	w.add(aPod("d", -5))
	if got := w.order(); got != "d b c a" {
		t.Error(got)
	}
}

// TestBackoffEnds: a pod whose back-off has passed is one of the others again.
func TestBackoffEnds(t *testing.T) {
	w := newQueueWorld(t)
	w.add(aPod("a", 1))
	w.reject("a", "nodes")
	w.happened(nodeAdded)
	w.pass(time.Second)
	w.add(aPod("b", 0))
	if got := w.order(); got != "a b" {
		t.Error(got)
	}
}

// TestErrors: after errors in a row a pod waits for 1 s, 2 s, … 10 s, whatever happens.
func TestErrors(t *testing.T) {
	w := newQueueWorld(t)
	w.add(aPod("a", 0))
	var waits []time.Duration
	for range 6 {
		w.reject("a")
		w.happened(nodeAdded)
		from := w.host.Now()
		if got := w.order(); got != "" {
			t.Fatalf("%s is tried at once", got)
		}
		if err := w.host.Run(); err != nil { // lets the time pass
			t.Fatal(err)
		}
		waits = append(waits, w.host.Now().Sub(from))
	}
	w.reject("a", "nodes")
	w.happened(nodeAdded)
	from := w.host.Now()
	w.reject("a") // the first in a row again
	if err := w.host.Run(); err != nil {
		t.Fatal(err)
	}
	waits = append(waits, w.host.Now().Sub(from))
	if want := []time.Duration{1, 2, 4, 8, 10, 10, 1}; !slices.EqualFunc(waits, want, func(a, b time.Duration) bool { return a == b*time.Second }) {
		t.Error(waits)
	}
}

// TestRemove: a pod can be removed from wherever it is. One that was removed during its cycle does not come
// back as another of its name.
func TestRemove(t *testing.T) {
	for name, bring := range map[string]func(w *queueWorld){
		"active":        func(*queueWorld) {},
		"in flight":     func(w *queueWorld) { w.pop() },
		"unschedulable": func(w *queueWorld) { w.reject("a", "nodes") },
		"backing off":   func(w *queueWorld) { w.reject("a", "nodes"); w.happened(nodeAdded) },
		"erring":        func(w *queueWorld) { w.reject("a") },
	} {
		w := newQueueWorld(t)
		w.add(aPod("a", 0))
		bring(w)
		w.remove("a")
		w.happened(nodeAdded)
		w.pass(time.Minute)
		if got := w.order(); got != "" || len(w.pods)+w.flying+w.rejected+w.errors.Len() != 0 {
			t.Errorf("%s: order %q, %d pods", name, got, len(w.pods))
		}
	}
	w := newQueueWorld(t)
	w.add(aPod("a", 0))
	p := w.pop()
	w.remove("a")
	w.add(aPod("a", 1))
	w.queue.reject(p, p.pod, sets.New("nodes"))
	if got := w.order(); got != "a" {
		t.Errorf("order %q", got)
	}
}

// TestDoneAndBack: a pod whose binding failed comes back with its count of errors.
func TestDoneAndBack(t *testing.T) {
	w := newQueueWorld(t)
	w.add(aPod("a", 0))
	w.reject("a")
	w.pass(time.Second)
	p := w.pop()
	w.done(p)
	if len(w.pods) != 0 || w.flying != 0 {
		t.Errorf("%d pods, %d in flight", len(w.pods), w.flying)
	}
	w.queue.reject(p, p.pod, nil)
	if wait := p.until.Sub(w.host.Now()); wait != 2*time.Second {
		t.Errorf("it waits %v", wait)
	}
}
