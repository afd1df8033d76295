package scenario_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// Each built-in scenario has a comment and passes in the default order and with any one hold. Short
// tests try only some holds.
func TestBookGoesWell(t *testing.T) {
	holds, complete := explore.Config{Strategy: explore.Holds}, "no failure with at most 1 hold"
	if testing.Short() {
		holds.Count, complete = 3, ""
	}
	book := scenario.Book()
	names := make([]string, len(book))
	for i, s := range book {
		names[i] = s.Name
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if len(s.About) == 0 || s.Schedule != nil {
				t.Errorf("about %q, schedule %q: want a comment and no schedule", s.About, s.Schedule)
			}
			report, err := explore.Search(t.Context(), s, holds)
			if err != nil {
				t.Fatal(err)
			}
			if f := report.Failure; f != nil {
				t.Errorf("fails:\n%s", scenario.Story(f.Scenario, f.Result))
			}
			if report.Complete != complete {
				t.Errorf("searched %q", report.Complete)
			}
		})
	}
	if !slices.IsSorted(names) || len(names) < 6 {
		t.Errorf("the book has %v, want at least 6, sorted", names)
	}
}

// Each built-in scenario passes under random schedules with all its faults. "make soak" draws more.
func TestBookGoesWellWithAllFaults(t *testing.T) {
	count, strategies := 20, []explore.Strategy{explore.Random, explore.PCT, explore.POS}
	if testing.Short() {
		count, strategies = 2, strategies[:1]
	}
	for _, s := range scenario.Book() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if len(s.Faults) == 0 {
				t.Error("it does not say what goes wrong beside")
			}
			for _, strategy := range strategies {
				report, err := explore.Search(t.Context(), s, explore.Config{Strategy: strategy, Count: count + 1, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				if f := report.Failure; f != nil {
					t.Errorf("%s: fails:\n%s", strategy, scenario.Story(f.Scenario, f.Result))
				} else if report.Schedules != count+1 {
					t.Errorf("%s: %d schedules", strategy, report.Schedules)
				}
			}
		})
	}
}

func TestFind(t *testing.T) {
	s, err := scenario.Find("two-claims-two-volumes")
	if err != nil || s.Name != "two-claims-two-volumes" {
		t.Errorf("found %v, %v", s, err)
	}
	if _, err := scenario.Find("no-such"); !errors.Is(err, scenario.ErrNoScenario) || !strings.Contains(err.Error(), "no-such") {
		t.Errorf("an error %v for what is not there", err)
	}
}
