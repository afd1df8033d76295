package trace_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim/trace"
)

// A worker decides what to do after what it did last. When an operation decided is not known: the last one of its name may
// have been another.
func TestWhoDecidedWhen(t *testing.T) {
	step := 0
	write := func(actor, detail string) *trace.Record {
		step++
		return &trace.Record{
			Step: step, Actor: actor, Action: trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumes/disk"},
			Outcome: trace.Outcome{Detail: detail, After: &corev1.PersistentVolume{}},
		}
	}
	h := trace.NewHearsay()
	heard := trace.Action{Kind: trace.KindDeliver, Object: "persistentvolumes/disk"}
	h.Note(&trace.Record{Actor: "part/cache persistentvolumes", Action: heard, Outcome: trace.Outcome{Detail: "rv=1"}}, true)
	h.Note(&trace.Record{Actor: "part/worker", Action: trace.Action{Kind: trace.KindWork}}, true)
	h.Note(write("part/worker", "rv=2"), true)
	h.Note(write("part/operation", "rv=3"), true)
	h.Note(write("user", "rv=4"), true)
	for actor, want := range map[string]int{"part/worker": 2, "part/operation": 0} {
		basis, has := h.Basis(actor)
		now := write(actor, "")
		if since := h.Since(now, basis); !has || len(since) != want || (basis.Record == nil) != (want == 0) {
			t.Errorf("%s decided after %+v, since which %d others wrote, want %d", actor, basis.Record, len(since), want)
		}
	}
}
