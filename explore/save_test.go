package explore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// TestSavedFailureFailsAgain checks that a saved failure is read back and fails again.
func TestSavedFailureFailsAgain(t *testing.T) {
	s, err := scenario.Parse("late",
		"components: pvcontroller\nuser alice\n  create claim data 1Gi class=\n  wait claim data Bound\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Rules = []string{"I1"}
	report, err := explore.Search(t.Context(), s, explore.Config{})
	if err != nil || report.Failure == nil {
		t.Fatalf("%+v, %v, want a failure", report, err)
	}
	dir := filepath.Join(t.TempDir(), "failures")
	path, err := explore.Save(dir, report.Failure)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"violates: L7\n", "# violation: L7", "alice waits for claim data to be Bound",
		"# replay: volsim replay " + path,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	picture, err := os.ReadFile(report.Failure.Picture)
	if err != nil || report.Failure.Picture != strings.TrimSuffix(path, ".txt")+".svg" || !strings.HasPrefix(string(picture), "<svg") {
		t.Errorf("picture %q: %v\n%.100s", report.Failure.Picture, err, picture)
	}
	again, err := scenario.Parse("late", string(text))
	if err != nil {
		t.Fatal(err)
	}
	if again.String() != report.Failure.Scenario.String() {
		t.Errorf("read back:\n%s\nwant\n%s", again, report.Failure.Scenario)
	}
	r, err := again.Run(t.Context(), scenario.Options{})
	if err != nil || scenario.RuleID(r.Failure) != "L7" {
		t.Errorf("ran again: %v, %v, want L7", r.Failure, err)
	}
	if other, err := explore.Save(dir, report.Failure); err != nil || other != path {
		t.Errorf("saved again as %s, %v, want %s", other, err, path)
	}
	elsewhere := *report.Failure
	elsewhere.Scenario = s.WithSchedule(sim.Schedule{{Step: 1, What: sim.DeviationHold, Subject: "alice"}}, "L7")
	if other, err := explore.Save(dir, &elsewhere); err != nil || other == path {
		t.Errorf("another failure saved as %s, %v", other, err)
	}
}
