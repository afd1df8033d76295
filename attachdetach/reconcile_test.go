package attachdetach

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/executor"
)

var now = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

func TestDecideDetach(t *testing.T) {
	t.Parallel()
	const wait = 6 * time.Minute
	mounted := nodeFacts{inUse: true, ready: true}
	unready := nodeFacts{inUse: true}
	for _, test := range []struct {
		name  string
		facts detachFacts
		want  detachDecision
	}{{
		name:  "wanted",
		facts: detachFacts{wanted: true, canDetach: true, wait: wait},
		want:  detachDecision{verdict: detachNotNeeded},
	}, {
		name:  "no plugin",
		facts: detachFacts{wait: wait},
		want:  detachDecision{verdict: detachNoPlugin},
	}, {
		name:  "another operation runs",
		facts: detachFacts{canDetach: true, wait: wait, check: &executor.PendingError{}},
		want:  detachDecision{verdict: detachAfterRunning},
	}, {
		name:  "failed recently",
		facts: detachFacts{canDetach: true, wait: wait, check: &executor.BackoffError{Remaining: time.Second}},
		want:  detachDecision{verdict: detachAfterBackoff, until: now.Add(time.Second)},
	}, {
		name:  "not in use",
		facts: detachFacts{canDetach: true, wait: wait, node: nodeFacts{ready: true}},
		want:  detachDecision{verdict: detachNow, safety: safetyUnmounted},
	}, {
		name:  "in use, first request",
		facts: detachFacts{canDetach: true, wait: wait, node: mounted},
		want:  detachDecision{verdict: detachAfterUnmount, until: now.Add(wait)},
	}, {
		name:  "in use, requested before",
		facts: detachFacts{canDetach: true, wait: wait, node: unready, requested: now.Add(-time.Minute)},
		want:  detachDecision{verdict: detachAfterUnmount, until: now.Add(5 * time.Minute)},
	}, {
		name:  "in use for too long, not ready",
		facts: detachFacts{canDetach: true, wait: wait, node: unready, requested: now.Add(-wait)},
		want:  detachDecision{verdict: detachNow, safety: safetyTimedOut, timeout: true},
	}, {
		name:  "in use for too long, ready",
		facts: detachFacts{canDetach: true, wait: wait, node: mounted, requested: now.Add(-wait)},
		want:  detachDecision{verdict: detachAfterUnmount, timeout: true},
	}, {
		name:  "in use for too long, not ready, force disabled",
		facts: detachFacts{canDetach: true, node: unready, requested: now.Add(-wait)},
		want:  detachDecision{verdict: detachAfterUnmount},
	}, {
		name:  "in use, out of service, ready",
		facts: detachFacts{canDetach: true, node: nodeFacts{inUse: true, ready: true, outOfService: true}},
		want:  detachDecision{verdict: detachNow, safety: safetyOutOfService},
	}} {
		test.facts.now = now
		got := decideDetach(test.facts)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(detachDecision{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestDecideAttach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		facts attachFacts
		want  attachVerdict
	}{
		{"detached", attachFacts{}, attachNow},
		{"uncertain", attachFacts{state: stateUncertain}, attachNow},
		{"attached", attachFacts{state: stateAttached}, attachNotNeeded},
		{"attached, in back-off", attachFacts{state: stateAttached, check: &executor.BackoffError{}}, attachNotNeeded},
		{"another operation runs", attachFacts{blockers: 1, check: &executor.PendingError{}}, attachAfterRunning},
		{"attached elsewhere", attachFacts{blockers: 1}, attachAfterOthers},
		{
			"attached elsewhere, in back-off",
			attachFacts{blockers: 1, check: &executor.BackoffError{}},
			attachAfterOthers,
		},
		{"failed recently", attachFacts{state: stateUncertain, check: &executor.BackoffError{}}, attachAfterBackoff},
	} {
		if got := decideAttach(test.facts); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestDetachIsForcedOnlyAsAllowed enumerates the states of a node. A volume in use is detached only
// after the timeout from a node that is not ready, or from one that is out of service (I16).
func TestDetachIsForcedOnlyAsAllowed(t *testing.T) {
	t.Parallel()
	for bits := range 16 {
		node := nodeFacts{inUse: bits&1 > 0, ready: bits&2 > 0, outOfService: bits&4 > 0}
		timedOut := bits&8 > 0
		got := decideSafety(node, timedOut)
		want := !node.inUse || node.outOfService || timedOut && !node.ready
		if (got != safetyInUse) != want || got.forced() != (want && node.inUse) {
			t.Errorf("%+v, timed out %v: %s, want allowed %v", node, timedOut, got, want)
		}
	}
}
