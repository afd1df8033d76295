package defaultpreemption

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// execute preempts victims on node1 for the pod p.
func (w *world) execute(victims ...*corev1.Pod) {
	w.Helper()
	w.Process.Spawn("cycle", func(context.Context) { w.begin(w.pod("p"), candidate{node: "node1", victims: victims}) })
	w.Run()
}

// newVictims returns a world with a pod that preempts and others on node1.
func newVictims(t *testing.T, change func(*Config), others ...*corev1.Pod) (*world, []*corev1.Pod) {
	t.Helper()
	w := newWorld(t, change, objects(others, newPod("p", "", high, 0), runtime.Object(newNode("node1", 32)))...)
	var victims []*corev1.Pod
	for _, pod := range others {
		victims = append(victims, w.pod(pod.Name))
	}
	return w, victims
}

// Upstream: pkg/scheduler/framework/preemption TestPrepareCandidate, TestPreemptPod (v1.36).
func TestVictims(t *testing.T) {
	marked := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler",
			Message: "default-scheduler: preempting to accommodate a higher priority pod",
		}}
	}
	one := []*corev1.Pod{newPod("v1", "node1", mid, 0)}
	two := []*corev1.Pod{newPod("v1", "node1", mid, 0), newPod("v2", "node1", low, 0)}
	for _, test := range []struct {
		name      string
		victims   []*corev1.Pod
		gone      bool // before the preemption begins
		refuse    string
		conflict  string
		cancelled bool // the binding of a victim
		requests  []string
		events    []string
		activated []string
	}{
		{name: "none"},
		{
			name: "one", victims: one, requests: []string{"patch v1 status", "delete v1"},
			events: []string{"Preempted: Preempted by pod uid-p on node node1"},
		},
		{name: "one that is being deleted", victims: []*corev1.Pod{newPod("v1", "node1", mid, 0, terminating(false))}},
		{name: "one that is gone", victims: one, gone: true, requests: []string{"patch v1 status"}},
		{
			name: "one with the condition", victims: []*corev1.Pod{newPod("v1", "node1", mid, 0, marked)}, requests: []string{"delete v1"},
			events: []string{"Preempted: Preempted by pod uid-p on node node1"},
		},
		{
			name: "one with the condition that is gone", victims: []*corev1.Pod{newPod("v1", "node1", mid, 0, marked)}, gone: true,
			requests: []string{"delete v1"},
		},
		{
			name: "the deletion fails", victims: one, refuse: "delete v1", requests: []string{"patch v1 status", "delete v1"},
			activated: []string{"p"},
		},
		{name: "the patch fails", victims: one, refuse: "patch v1 status", requests: []string{"patch v1 status"}, activated: []string{"p"}},
		{name: "the patch conflicts", victims: one, conflict: "patch v1 status", requests: []string{"patch v1 status", "get v1"}, activated: []string{"p"}},
		{
			name: "two, the first fails", victims: two, refuse: "patch v1 status", requests: []string{"patch v1 status"}, activated: []string{"p"},
		},
		{
			name: "two, the second fails", victims: two, refuse: "delete v2",
			requests: []string{"patch v1 status", "delete v1", "patch v2 status", "delete v2"},
			events:   []string{"Preempted: Preempted by pod uid-p on node node1"}, activated: []string{"p"},
		},
		{
			name: "one that is being bound", victims: one, cancelled: true,
			events: []string{"Preempted: Preempted by pod uid-p on node node1 (in kube-scheduler memory)."},
		},
		{
			name: "one that is bound already", victims: one, requests: []string{"patch v1 status", "delete v1"},
			events: []string{"Preempted: Preempted by pod uid-p on node node1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			reasons := []string{}
			w, victims := newVictims(t, func(cfg *Config) {
				cfg.Cancel = func(_ *corev1.Pod, message string) bool {
					reasons = append(reasons, message)
					return test.cancelled
				}
			}, test.victims...)
			if test.gone {
				now := int64(0)
				if err := w.User.CoreV1().Pods("default").Delete(context.Background(), "v1", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
					t.Fatal(err)
				}
			}
			w.refuse, w.conflict = map[string]bool{test.refuse: true}, test.conflict
			w.execute(victims...)
			if diff := cmp.Diff(test.requests, w.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, w.events("v1")); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.activated, w.activated); diff != "" {
				t.Errorf("activated (-want +got):\n%s", diff)
			}
			if len(reasons) > 0 && reasons[0] != "preempted by DefaultPreemption" {
				t.Errorf("the binding was ended since %q", reasons[0])
			}
			if w.PreEnqueue(w.pod("p")) != nil {
				t.Error("the pod still waits")
			}
		})
	}
}

// Upstream: pkg/scheduler/framework/preemption Executor.PreemptPod (v1.36).
func TestCondition(t *testing.T) {
	w, victims := newVictims(t, nil, newPod("v1", "node1", mid, 0, terminating(false)))
	victim := victims[0].DeepCopy()
	victim.DeletionTimestamp = nil // as it was when it was chosen
	w.execute(victim)
	want := []corev1.PodCondition{{
		Type: "DisruptionTarget", Status: "True", ObservedGeneration: victim.Generation, Reason: "PreemptionByScheduler",
		Message: "default-scheduler: preempting to accommodate a higher priority pod", LastTransitionTime: metav1.NewTime(w.Host.Now()),
	}}
	got := w.pod("v1").DeepCopy().Status.Conditions
	for i := range got {
		got[i].LastTransitionTime = want[0].LastTransitionTime
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Another pod that has a victim's name by now is left alone.
func TestSuccessorOfAVictim(t *testing.T) {
	w, victims := newVictims(t, nil, newPod("v1", "node1", mid, 0))
	victim := victims[0].DeepCopy()
	victim.UID = "another"
	w.execute(victim)
	if pod := w.pod("v1"); pod == nil || pod.DeletionTimestamp != nil || len(pod.Status.Conditions) > 0 {
		t.Errorf("the pod was preempted: %v", pod)
	}
	if got := w.events("v1"); got != nil {
		t.Errorf("events %q", got)
	}
}

// While victims are deleted, the pod waits; before the answer about the last one comes, it does no more.
//
// Upstream: pkg/scheduler/framework/preemption TestIsPodRunningPreemption, TestPrepareCandidateAsyncSetsPreemptingSets,
// TestAsyncPreemptionFailure; plugins/defaultpreemption TestPreEnqueue (v1.36).
func TestPodWaits(t *testing.T) {
	w, victims := newVictims(t, nil, newPod("v1", "node1", mid, 0), newPod("v2", "node1", mid, 0), newPod("v3", "node1", mid, 0))
	p, another := w.pod("p"), newPod("another", "", high, 0)
	if w.PreEnqueue(p) != nil {
		t.Error("the pod waits before anything began")
	}
	waits := framework.NewStatus(framework.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
	w.before = func(request string) {
		if diff := cmp.Diff(waits, w.PreEnqueue(p)); diff != "" {
			t.Errorf("before %q (-want +got):\n%s", request, diff)
		}
		if w.PreEnqueue(another) != nil {
			t.Errorf("before %q another pod waits", request)
		}
	}
	w.execute(victims...)
	want := []string{"patch v1 status", "delete v1", "patch v2 status", "delete v2", "patch v3 status", "delete v3"}
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if w.PreEnqueue(p) != nil || w.activated != nil {
		t.Errorf("the pod waits, or was activated: %q", w.activated)
	}
}

// A victim that goes by itself, while the pod is held back, leaves no event for the pod.
func TestVictimGoesByItself(t *testing.T) {
	atOnce := func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64) }
	w, victims := newVictims(t, nil, newPod("v1", "node1", mid, 0, atOnce), newPod("v2", "node1", mid, 0, atOnce))
	p := w.pod("p")
	w.ActImmediately()
	w.before = func(request string) {
		if request == "delete v1" {
			now := int64(0)
			if err := w.User.CoreV1().Pods("default").Delete(context.Background(), "v2", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Error(err)
			}
		}
		if w.PreEnqueue(p) == nil && request != "patch v2 status" {
			t.Errorf("before %q the pod does not wait", request)
		}
	}
	w.execute(victims...)
	if diff := cmp.Diff([]string{"patch v1 status", "delete v1", "patch v2 status"}, w.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"p"}, w.activated); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
}

// Upstream: pkg/scheduler/framework/preemption TestIsPodRunningPreemption (v1.36).
func TestLastVictim(t *testing.T) {
	leaving := newPod("leaving", "node1", mid, 0, terminating(true))
	w, victims := newVictims(t, nil, newPod("v1", "node1", mid, 0), leaving)
	p, gone, successor := w.pod("p"), newPod("gone", "node1", mid, 0), victims[0].DeepCopy()
	successor.UID = "another"
	for _, test := range []struct {
		name    string
		victims []*corev1.Pod
		want    bool // the pod waits
	}{
		{"none is left", nil, false},
		{"two are left", []*corev1.Pod{gone, leaving}, true},
		{"one is left", victims[:1], true},
		{"one is left, and gone", []*corev1.Pod{gone}, false},
		{"one is left, and being deleted", []*corev1.Pod{leaving}, false},
		{"one is left, and gone; another pod has its name", []*corev1.Pod{successor}, false},
	} {
		w.preempting[p.UID] = &preemption{pod: p, node: "node1", victims: test.victims}
		if got := w.PreEnqueue(p) != nil; got != test.want {
			t.Errorf("%s: the pod waits: %v, want %v", test.name, got, test.want)
		}
	}
}

// The nominations of less important pods end first. A request that fails does not keep the victims.
//
// Upstream: pkg/scheduler/framework/preemption TestRemoveNominatedNodeName, getLowerPriorityNominatedPods (v1.36).
func TestNominations(t *testing.T) {
	w, victims := newVictims(t, nil, newPod("v1", "node1", mid, 0), newPod("n1", "", low, 0, nominatedTo("node1")),
		newPod("n2", "", low, 0), newPod("n3", "", veryHigh, 0, nominatedTo("node1")))
	for _, name := range []string{"n1", "n2", "n3"} {
		w.nominated = append(w.nominated, &framework.PodInfo{Pod: w.pod(name)})
	}
	w.execute(victims[0])
	if diff := cmp.Diff([]string{"patch n1 status", "patch v1 status", "delete v1"}, w.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if n1, n3 := w.pod("n1").Status.NominatedNodeName, w.pod("n3").Status.NominatedNodeName; n1 != "" || n3 != "node1" {
		t.Errorf("nominated nodes %q, %q; want none, node1", n1, n3)
	}
	w, victims = newVictims(t, nil, newPod("v1", "node1", mid, 0), newPod("n1", "", low, 0, nominatedTo("node1")))
	w.nominated, w.refuse = []*framework.PodInfo{{Pod: w.pod("n1")}}, map[string]bool{"patch n1 status": true}
	w.execute(victims[0])
	if diff := cmp.Diff([]string{"v1"}, w.preempted(victims)); diff != "" {
		t.Errorf("preempted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"p"}, w.activated); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
}
