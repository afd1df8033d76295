package causality_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// A worker decides after its previous action. The start of an operation is not known: an earlier one may
// have had the same name.
func TestDecisionContext(t *testing.T) {
	step := 0
	write := func(task, detail string) *trace.Record {
		step++
		return &trace.Record{
			Step: step, HostStep: step, Task: task, Action: trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumes/disk"},
			Outcome: trace.Outcome{Detail: detail, After: &corev1.PersistentVolume{}},
		}
	}
	h := causality.NewCacheKnowledge()
	version := trace.Action{Kind: trace.KindDeliver, Object: "persistentvolumes/disk"}
	h.Observe(&trace.Record{Task: "part/cache persistentvolumes", Action: version, Outcome: trace.Outcome{Detail: "rv=1"}}, true)
	h.Observe(&trace.Record{Task: "part/worker", Action: trace.Action{Kind: trace.KindWork}}, true)
	h.Observe(write("part/worker", "rv=2"), true)
	h.Observe(write("part/operation", "rv=3"), true)
	h.Observe(write("user", "rv=4"), true)
	for task, want := range map[string]int{"part/worker": 2, "part/operation": 0} {
		decided, has := h.DecisionContext(task)
		now := write(task, "")
		if since := h.WritesSince(now, decided); !has || len(since) != want || (decided.Previous == nil) != (want == 0) {
			t.Errorf("%s decided after %+v, since which %d others wrote, want %d", task, decided.Previous, len(since), want)
		}
	}
}

// Deliveries of a live host may come between the previous action of a worker and its decision.
func TestDecisionContextOfALiveHost(t *testing.T) {
	step := 0
	h := causality.NewCacheKnowledge()
	observe := func(task string, action trace.Action, detail string, after *corev1.PersistentVolume) *trace.Record {
		step++
		r := &trace.Record{Step: step, Task: task, Action: action, Outcome: trace.Outcome{Detail: detail}}
		if after != nil {
			r.After = after
		}
		h.Observe(r, true)
		return r
	}
	object := "persistentvolumes/disk"
	deliver := trace.Action{Kind: trace.KindDeliver, Object: object}
	write := trace.Action{Kind: trace.KindAPI, Verb: "update", Object: object}
	observe("part/cache persistentvolumes", deliver, "rv=1", nil)
	observe("part/worker", trace.Action{Kind: trace.KindWork}, "", nil)
	observe("user", write, "rv=2", &corev1.PersistentVolume{})
	observe("part/worker", trace.Action{Kind: trace.KindAPI, Verb: "get", Object: object}, "", nil)
	observe("user", write, "rv=3", &corev1.PersistentVolume{})
	last := observe("user", write, "rv=4", &corev1.PersistentVolume{})
	observe("part/cache persistentvolumes", deliver, "rv=3", nil)

	now := &trace.Record{Step: step + 1, Task: "part/worker", Action: write}
	decided, has := h.DecisionContext(now.Task)
	if !has || len(decided.Unseen) > 0 {
		t.Errorf("it had not seen %v: what was delivered before its action may have been seen", decided.Unseen)
	}
	if since := h.WritesSince(now, decided); len(since) != 1 || since[0] != last {
		t.Errorf("written since the decision: %v, want only step %d, which was not delivered", since, last.Step)
	}
}

func TestStepsSince(t *testing.T) {
	for want, steps := range map[string][]int{
		"step 9":                         {4, 9},
		"steps 5 and 9":                  {4, 5, 9},
		"a later write in the same step": {4, 4},
		"later writes in the same step, and step 5": {4, 4, 4, 5},
	} {
		if got := causality.StepsSince(steps[0], steps[1:]); got != want {
			t.Errorf("decided in step %d, before steps %d: %q, want %q", steps[0], steps[1:], got, want)
		}
	}
}
