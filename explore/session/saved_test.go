package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace"
)

func TestUntilUnknownCallDoesNotRunTheWorld(t *testing.T) {
	s := play(t, "create claim data 64Mi")
	err := s.Do("until Foo")
	if err == nil || !strings.Contains(err.Error(), "NodeStageVolume") || !strings.Contains(err.Error(), "update") {
		t.Errorf("got %v, want the known calls", err)
	}
	if s.Steps() != 0 {
		t.Errorf("%d steps were run", s.Steps())
	}
}

func TestErrorNamesTheOperationOnce(t *testing.T) {
	s := play(t)
	for _, op := range []string{"nonsense now", "create cat tom", "create claim data many", "until Foo", "pass by", "hold none"} {
		if err := s.Do(op); err == nil || strings.Count(err.Error(), op) != 1 {
			t.Errorf("%q: %v", op, err)
		}
	}
}

func TestStoryHasChangesOfSize(t *testing.T) {
	s := play(t, "create claim data 64Mi", "create pod web data on=node-1", "rest", "set claim data size=128Mi")
	if got, want := stateOf(s, "claim default/data"), ", 64Mi, 128Mi requested"; !strings.HasSuffix(got, want) {
		t.Errorf("the claim is %q, want %q", got, want)
	}
	do(t, s, "rest")
	story := s.Story()
	for _, want := range []string{
		"user changes the size that claim default/data requests from 64Mi to 128Mi", "has the driver expand the volume",
		" from 64Mi to 128Mi\n", "changes the capacity of claim default/data from 64Mi to 128Mi",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("%q is not in\n%s", want, story)
		}
	}
	for line := range strings.Lines(s.StateTable()) {
		if (strings.HasPrefix(line, "claim ") || strings.HasPrefix(line, "volume ")) && !strings.Contains(line, ", 128Mi ") {
			t.Errorf("no size in %s", line)
		}
	}
}

// TestReplayableLeadsToTheSameState includes operations that failed or were interrupted.
func TestReplayableLeadsToTheSameState(t *testing.T) {
	s := play(t, "# a comment", "components: pvcontroller, provisioner, attacher", "create claim data 64Mi")
	ctx, cancel := context.WithCancel(t.Context())
	s.Log().Watch(func(r trace.Record) {
		if r.Verb == "CreateVolume" {
			cancel()
		}
	})
	err := s.DoContext(ctx, "rest")
	if err == nil || !strings.Contains(err.Error(), "interrupted after") {
		t.Fatalf("it ended with %v", err)
	}
	before := s.Steps()
	for _, op := range []string{"nonsense", "until NodeStageVolume", "wait claim none Bound", "hold none"} {
		if err := s.Do(op); err == nil {
			t.Errorf("%q succeeded", op)
		}
	}
	do(t, s, "create claim more 64Mi", "hold attacher", "step 3", "release attacher", "step 2")
	if s.Steps() <= before {
		t.Error("no step was run")
	}
	again := play(t, s.Replayable()...)
	if diff := cmp.Diff(s.Log().Text(), again.Log().Text()); diff != "" {
		t.Errorf("%q: %s", s.Replayable(), diff)
	}
	if s.Steps() != again.Steps() {
		t.Errorf("%d and %d steps", s.Steps(), again.Steps())
	}
}

// race fails if alice is late: bob has deleted the claim that she waits for.
const race = `# Alice and bob wait for one claim, and bob deletes it.
components: pvcontroller, pvcprotection
ends: differ
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data on=node-1
user bob
  wait claim data Bound
  delete claim data
schedule
  3 hold: alice
violates: L7
`

// TestScenarioIsSteppedUnderItsSchedule compares a session with a run of the same scenario.
func TestScenarioIsSteppedUnderItsSchedule(t *testing.T) {
	for _, text := range []string{race, strings.Replace(race, "3 hold: alice", "2 event: crash pvcontroller", 1)} {
		parsed, err := scenario.Parse("race", text)
		if err != nil {
			t.Fatal(err)
		}
		run, err := parsed.Run(t.Context(), scenario.Options{})
		if err != nil || run.Mismatch != "" {
			t.Fatal(err, run.Mismatch)
		}
		lines := session.Ops(strings.Split(strings.TrimSpace(text), "\n"))
		if world, ops := lines.Then("rest").Split(); len(ops) != 1 || len(world) != len(lines) {
			t.Errorf("split into %q and %q", world, ops)
		}
		s := play(t, lines.Then("rest")...)
		want, got := run.Trace.Text(), s.Log().Text()
		if s.Steps() < 10 || !strings.HasPrefix(want, got) { // a run also checks what a resync does
			t.Errorf("after %d steps: %s", s.Steps(), cmp.Diff(want, got))
		}
		stepped := play(t, lines...)
		for range s.Steps() {
			do(t, stepped, "step")
		}
		if diff := cmp.Diff(got, stepped.Log().Text()); diff != "" && !strings.Contains(text, "event") {
			t.Errorf("one step after the other: %s", diff)
		}
	}
}
