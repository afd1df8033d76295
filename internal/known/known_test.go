package known_test

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/known"
	"github.com/volsim/volsim/internal/testcheck"
)

var update = flag.Bool("update", false, "rewrite found.txt and docs/known.md")

// Each bug is found by its rule, and again in the saved text; its mended form passes the same search.
// The numbers of schedules are those of found.txt and docs/known.md.
func TestEveryBugIsFound(t *testing.T) {
	var mutex sync.Mutex
	results := map[string]known.Result{}
	t.Run("each", func(t *testing.T) {
		for i, b := range known.Bugs() {
			t.Run(b.Name, func(t *testing.T) {
				if testing.Short() && i%4 != 0 {
					t.Skip("-short: only each fourth row is searched")
				}
				t.Parallel()
				r, err := b.Search(t.Context(), known.Broken, explore.Config{})
				testcheck.NoError(t, err, b.Missed(r))
				result := known.ResultOf(r)
				t.Logf("found in %d of %d, %d deviations: %s", result.Schedules, b.Within, result.Deviations, r.Failure)
				mutex.Lock()
				results[b.Name] = result
				mutex.Unlock()
				replays(t, r.Failure.Scenario)

				r, err = b.Search(t.Context(), known.Mended, explore.Config{})
				testcheck.NoError(t, err)
				t.Logf("mended: %d schedules, %d steps, %s", r.Schedules, r.Steps, r.Complete)
				if f := r.Failure; f != nil {
					t.Errorf("the mended form fails: %v\nunder %s", f, f.Scenario.Schedule)
				}
				if r.Schedules < known.MendedSchedules && r.Complete == "" {
					t.Errorf("the mended form: %d schedules, want %d, or all of them", r.Schedules, known.MendedSchedules)
				}
			})
		}
	})
	if len(results) < len(known.Bugs()) {
		return // failed, or not selected
	}
	golden(t, "found.txt", known.FoundFile(results))
	golden(t, filepath.Join("..", "..", "docs", "known.md"), known.Page(results))
}

// The names, addresses and lines of the list have one form.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range known.Bugs() {
		if seen[b.Name] {
			t.Errorf("%s: two bugs of that name", b.Name)
		}
		seen[b.Name] = true
		if len(b.Name) > 24 || len(b.FoundBy) > 16 || len(b.Rule) > 13 || len(b.Title) > 44 {
			t.Errorf("%s: name, found by, rule or title are too long for the list", b.Name)
		}
		if b.Year < 2014 || b.Project == "" || b.What == "" || len(b.Issues) == 0 {
			t.Errorf("%s: year %d, project %q, what %q, issues %q: want all of them", b.Name, b.Year, b.Project, b.What, b.Issues)
		}
		named := false
		for _, address := range b.Reports() {
			if !regexp.MustCompile(`^https://github\.com/[^/]+/[^/]+/(issues|pull)/\d+$`).MatchString(address) {
				t.Errorf("%s: address %q", b.Name, address)
			}
			_, number, _ := strings.Cut(path.Base(b.Name), "-")
			named = named || strings.HasSuffix(number, path.Base(address))
		}
		if !named {
			t.Errorf("%s: its number is none of %q", b.Name, b.Issues)
		}
	}
}

func TestUnknownBugs(t *testing.T) {
	if _, err := known.Find("etcd-1"); err == nil || err.Error() != `unknown bug "etcd-1" (see volsim known)` {
		t.Errorf("got error %v", err)
	}
	s, err := scenario.Parse("saved", "drawn: volsim.known \"etcd-1\"\nuser alice\n  create claim data 1Gi\n")
	testcheck.NoError(t, err)
	if _, err := known.Restore(s); err == nil {
		t.Error("a scenario of an unknown bug was restored")
	}
	s.Drawn = []string{"other 1"}
	if again, err := known.Restore(s); err != nil || again != s {
		t.Errorf("another scenario: %v, %v; want it unchanged", again, err)
	}
}

// replays checks that the text of a failure is enough to repeat it.
func replays(t *testing.T, s *scenario.Scenario) {
	t.Helper()
	again, err := scenario.Parse(s.Name, s.String())
	testcheck.NoError(t, err)
	again, err = known.Restore(again)
	testcheck.NoError(t, err)
	r, err := explore.Replay(t.Context(), again)
	testcheck.NoError(t, err)
	if got := scenario.RuleID(r.Failure); got != s.Violates || r.Mismatch != "" {
		t.Errorf("replayed from its text: rule %q, mismatch %q; want %q", got, r.Mismatch, s.Violates)
	}
}

// golden compares a text with a file, or writes the file.
func golden(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		testcheck.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(file)
	testcheck.NoError(t, err)
	if string(got) != want {
		t.Errorf("%s is out of date: rewrite it with go test ./internal/known -update; want\n%s", file, want)
	}
}
