package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// runText runs a scenario in the default order. Its text must be canonical.
func runText(t *testing.T, text string) (*scenario.Scenario, *scenario.Result) {
	t.Helper()
	s := testcheck.Must(scenario.Parse("test", text))
	testcheck.Equal(t, "text", text, s.String())
	return s, testcheck.Must(s.Run(t.Context(), scenario.Options{}))
}

const restored = `nodes: 1
snapshots: on
user alice
  create claim data 1Gi
  create pod web data
  write pod web data
  create snapshot before data class=standard
  wait snapshot before ReadyToUse
  create claim restored 2Gi snapshot=before
  create pod reader restored
  read pod reader restored web
  delete snapshot before
  wait snapshot before gone
`

// TestSnapshotSurvivesCrashes takes a snapshot of a volume in use, crashes each component that acts on it at every
// step until it is ready, and restores it.
func TestSnapshotSurvivesCrashes(t *testing.T) {
	testcheck.Stepped(t)
	s, r := runText(t, restored)
	testcheck.NoError(t, r.Failure)
	const outcome = "2 attachments, 2 claims Bound, 2 pods Running, 2 volumes Bound"
	testcheck.Equal(t, "outcome", outcome, r.Outcome.String())
	records := slices.DeleteFunc(r.Trace.Records(), func(one trace.Record) bool { return one.Step <= r.SetupEnd })
	trace.NumberHostSteps(records)
	said := func(words string) int {
		i := slices.IndexFunc(records, func(one trace.Record) bool {
			got, _ := trace.Describe(one)
			return strings.HasPrefix(got, words)
		})
		if i < 0 {
			t.Fatalf("nothing %s", words)
		}
		return records[i].HostStep
	}
	runs := 0
	for _, component := range []string{"snapshotcontroller", "snapshotter"} {
		for step := said("creates snapshot content "); step <= said("reports snapshot default/before ready"); step++ {
			crash := testcheck.Must(sim.ParseDeviation(fmt.Sprintf("%d event: crash %s", step, component)))
			crashed := s.WithSchedule(sim.Schedule{crash}, "")
			r := testcheck.Must(crashed.Run(t.Context(), scenario.Options{}))
			if r.Mismatch != "" {
				continue // it is asleep
			}
			runs++
			if r.Failure != nil || r.Outcome.String() != outcome {
				t.Errorf("%v, outcome %v\n%s", r.Failure, r.Outcome, scenario.Story(crashed, r))
			}
		}
	}
	if runs < 10 {
		t.Errorf("only %d crashes", runs)
	}
}

// TestStoryOfASnapshot tells what happens to a snapshot, from its creation to its deletion.
func TestStoryOfASnapshot(t *testing.T) {
	s, r := runText(t, restored)
	story := scenario.Story(s, r)
	for _, want := range []string{
		"alice creates snapshot default/before of claim data", "snapshotcontroller creates snapshot content snapcontent-",
		"for snapshot default/before", "snapshotter has the driver take a snapshot: volume=", "ready to use",
		"snapshotcontroller reports snapshot default/before ready to use", "provisioner has the driver create a volume: from=",
		"alice deletes snapshot default/before, which remains until", "snapshotter has the driver delete the snapshot",
	} {
		_, rest, found := strings.Cut(story, want)
		if !found {
			t.Fatalf("no %q after the preceding texts in\n%s", want, scenario.Story(s, r))
		}
		story = rest
	}
}

// TestGroupSnapshotAndClone takes snapshots of the claims of an app, and clones one of them.
func TestGroupSnapshotAndClone(t *testing.T) {
	_, r := runText(t, `nodes: 1
snapshots: on
user alice
  create claim data 1Gi app=db
  create claim log 1Gi app=db
  create claim other 1Gi
  wait claim log Bound
  create groupsnapshot all db
  wait groupsnapshot all ReadyToUse
  create claim copy 1Gi clone=data
  wait claim copy Bound
`)
	testcheck.NoError(t, r.Failure)
	testcheck.Equal(t, "outcome", "4 claims Bound, 1 groupsnapshot ReadyToUse, 2 snapshots ReadyToUse, 4 volumes Bound", r.Outcome.String())
}

// TestReadFailsWithoutTheFile reads what another pod would have written.
func TestReadFailsWithoutTheFile(t *testing.T) {
	_, r := runText(t, `nodes: 1
user alice
  create claim data 1Gi
  create pod web data
  read pod web data other
`)
	if r.Failure == nil || !strings.HasPrefix(r.Failure.Error(), "user alice: read pod web data other: ") || scenario.RuleID(r.Failure) != "user" {
		t.Errorf("failure %v", r.Failure)
	}
}

// TestSnapshotErrors checks that errors name the line.
func TestSnapshotErrors(t *testing.T) {
	for text, want := range map[string]string{
		"snapshots: yes":                                                 `line 1: snapshots: "yes": want on`,
		"user a\n  create snapshot s data":                               `line 2: act "create snapshot s data": the world has no snapshots: add the header "snapshots: on"`,
		"user a\n  create groupsnapshot s db":                            `line 2: act "create groupsnapshot s db": the world has no snapshots: add the header "snapshots: on"`,
		"snapshots: on\nuser a\n  create snapshot s":                     `line 3: act "create snapshot s": want create snapshot NAME CLAIM, then options: class=`,
		"snapshots: on\nuser a\n  create claim c 1Gi snapshot=a clone=b": `line 3: act "create claim c 1Gi snapshot=a clone=b": want snapshot= or clone=, not both`,
		"user a\n  read pod web data":                                    `line 2: act "read pod web data": want read pod NAME CLAIM WRITER`,
	} {
		if _, err := scenario.Parse("test", text); err == nil || err.Error() != "scenario test, "+want {
			t.Errorf("got %v\nwant scenario test, %s", err, want)
		}
	}
}
