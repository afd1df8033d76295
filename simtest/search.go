package simtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// completeSchedulesMax is the bound on the schedules of Holds and Exhaustive.
const completeSchedulesMax = 1_000_000

// Parse parses a scenario; see scenario.Parse. The text may be indented as a whole. An error ends
// the test.
func Parse(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse(t.Name(), unindent(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unindent removes the white space with which all lines begin.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	common, begun := "", false
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if !begun {
			common, begun = indent, true
		}
		for !strings.HasPrefix(indent, common) {
			common = common[:len(common)-1]
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, common)
	}
	return strings.Join(lines, "\n")
}

// Read parses a scenario file. An error ends the test.
func Read(t testing.TB, file string) *scenario.Scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
	if err != nil {
		t.Fatal(err)
	}
	s.Dir = filepath.Dir(file)
	return s
}

// Complete runs a search that must cover its bound completely: with [explore.Holds] every schedule
// of at most cfg.Depth holds, with [explore.Exhaustive] every order of events or, if cfg.Depth is
// not 0, every one with at most so many deviations. A failure ends the test, and so does a search
// that is not complete within a million schedules.
func Complete(t testing.TB, s *scenario.Scenario, cfg explore.Config) explore.Report {
	t.Helper()
	cfg.Count = completeSchedulesMax
	r := originOf(t, "Complete").search(t, s, cfg)
	if r.Complete == "" {
		t.Fatalf("scenario %s: not complete within %d schedules", s.Name, cfg.Count)
	}
	return r
}

// Search runs the saved failures of the test and then schedules of a scenario, as configured by
// cfg. It saves a failure and ends the test. The log says what was searched, and which conditions of
// [trace.Sometimes] never held; the test fails if the scenario names one of these.
func Search(t testing.TB, s *scenario.Scenario, cfg explore.Config) explore.Report {
	t.Helper()
	return originOf(t, "Search").search(t, s, cfg)
}

// search is Search.
func (o origin) search(t testing.TB, s *scenario.Scenario, cfg explore.Config) explore.Report {
	t.Helper()
	o.runSaved(t, func(saved *scenario.Scenario) (*scenario.Scenario, error) { return saved.WithGo(s), nil }, cfg)
	r := search(t, s, cfg)
	if r.Failure != nil {
		file := o.saveFailure(t, r.Failure)
		t.Fatalf("scenario %s: %s", s.Name, o.failureText(r.Failure, file))
	}
	said := r.Complete
	if said == "" {
		said = "no failure"
	}
	t.Logf("scenario %s: %s: %d schedules, %d steps", s.Name, said, r.Schedules, r.Steps)
	named := s.Sometimes
	if cfg.Shards > 1 {
		named = nil // it may hold in another shard
	}
	reportNever(t, r.Never(), named)
	return r
}

// search is explore.Search whose errors end the test.
func search(t testing.TB, s *scenario.Scenario, cfg explore.Config) explore.Report {
	t.Helper()
	r, err := explore.Search(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Replay runs a scenario once, under the schedule that a failing test printed, or under its own if
// schedule is "". A failure ends the test, and so does a schedule that does not fit. The workloads
// make the components and scripts of a scenario with values of [Draw]; without such, give none.
func Replay(t testing.TB, s *scenario.Scenario, schedule string, workloads ...Workload) *scenario.Result {
	t.Helper()
	if len(workloads) > 0 {
		made, err := withDrawn(s, *s, workloads)
		if err != nil {
			t.Fatal(err)
		}
		s = made
	}
	if schedule != "" {
		parsed, err := sim.ParseSchedule(schedule)
		if err != nil {
			t.Fatal(err)
		}
		s = s.WithSchedule(parsed, s.Violates)
	}
	r, f := replay(t, s)
	if f != nil {
		t.Fatalf("scenario %s: %s", s.Name, originOf(t, "Replay").failureText(f, ""))
	}
	if r.Mismatch != "" {
		t.Fatalf("scenario %s: the schedule does not fit: %s", s.Name, r.Mismatch)
	}
	return r
}

// replay is explore.Replay whose errors end the test.
func replay(t testing.TB, s *scenario.Scenario) (*scenario.Result, *explore.Failure) {
	t.Helper()
	r, err := explore.Replay(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure == nil {
		return r, nil
	}
	return r, &explore.Failure{Scenario: s.WithSchedule(s.Schedule, scenario.RuleID(r.Failure)), Result: r}
}
