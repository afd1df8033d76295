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
			Step: step, Task: task, Action: trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumes/disk"},
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
