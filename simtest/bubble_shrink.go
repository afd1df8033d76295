package simtest

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// Bounds on the replays of a failure.
const (
	bubbleReplays    = 3  // to see whether it fails again
	bubbleShrinkRuns = 50 // to shrink its schedule
)

// scheduleSuffix ends the names of the files of saved schedules.
const scheduleSuffix = ".schedule"

// report shrinks a failure, saves its schedule and ends the test.
func (s *bubbleSearch) report(r *bubbleRun, found string) {
	s.t.Helper()
	s.t.Logf("%s; each of the replays that shrink it logs its errors, too", found)
	k := &bubbleShrinker{bubbleSearch: s, best: r}
	if again := k.failsAgain(); !again {
		found += fmt.Sprintf("; it did not fail again in %d replays", bubbleReplays)
	} else if k.shrink(); k.runs > 0 {
		found += fmt.Sprintf(", shrunk in %s", plural(k.runs, "more run"))
	}
	s.t.Fatalf("%s\n%s\n%s", found, k.best.world.report(), s.save(k.best.applied()))
}

// A bubbleShrinker shrinks the schedule of a failed run.
type bubbleShrinker struct {
	*bubbleSearch
	best *bubbleRun
	runs int
}

// failsAgain replays the failure, which must fail once.
func (k *bubbleShrinker) failsAgain() bool {
	for range bubbleReplays {
		if r := k.runUnder(newGateSchedule(k.best.applied())); r.failed {
			k.best = r
			return true
		}
	}
	return false
}

// shrink removes as many deviations as possible: first all picks, then half of the deviations, a
// quarter, and so on down to single ones.
func (k *bubbleShrinker) shrink() {
	schedule := k.best.applied()
	if others := slices.DeleteFunc(slices.Clone(schedule), isPick); len(others) < len(schedule) {
		k.fails(others)
	}
	for size := max(1, len(k.best.applied())/2); size >= 1; {
		if !k.without(size) {
			size /= 2
		}
		size = min(size, len(k.best.applied()))
	}
}

func isPick(d sim.Deviation) bool { return d.What == sim.DeviationPick }

// without tries to remove so many deviations in a row, and reports whether it could.
func (k *bubbleShrinker) without(size int) bool {
	schedule := k.best.applied()
	for from := len(schedule) - size; from >= 0; from -= size { // the last ones matter least
		if k.fails(slices.Delete(slices.Clone(schedule), from, from+size)) {
			return true
		}
	}
	return false
}

// fails runs a schedule and reports whether it fails. If so, the run becomes the best one.
func (k *bubbleShrinker) fails(schedule sim.Schedule) bool {
	if k.runs >= bubbleShrinkRuns {
		return false
	}
	k.runs++
	r := k.runUnder(newGateSchedule(schedule))
	if r.failed && len(r.applied()) < len(k.best.applied()) {
		k.best = r
		return true
	}
	return false
}

// save writes a schedule to a file and returns where, in words.
func (s *bubbleSearch) save(schedule sim.Schedule) string {
	if os.Getenv(keepVariable) == "no" {
		return "not saved"
	}
	text := "# A schedule under which " + s.t.Name() + " failed; see simtest.Budget.SearchBubble.\n"
	for _, d := range schedule {
		text += d.String() + "\n"
	}
	h := fnv.New32a()
	h.Write([]byte(text))
	file := filepath.Join(savedDir(s.t), fmt.Sprintf("bubble-%08x%s", h.Sum32(), scheduleSuffix))
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		return fmt.Sprintf("not saved: %v", err)
	}
	return "saved in " + file + ", which runs first from now on"
}

// runSaved runs the saved schedules. A failure ends the test.
func (s *bubbleSearch) runSaved() {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(escape(savedDir(s.t)), "*"+scheduleSuffix))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files { // sorted by name
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		_, lines, _ := strings.Cut(string(text), "\n") // without the comment
		schedule, err := sim.ParseSchedule(lines)
		if err != nil {
			s.t.Fatalf("%s: %v", file, err)
		}
		strategy := newGateSchedule(schedule)
		switch r := s.runUnder(strategy); {
		case r.failed:
			s.t.Fatalf("%s fails again\n%s", file, r.world.report())
		case strategy.mismatch() != "":
			s.t.Logf("%s: the schedule no longer fits (%s)", file, strategy.mismatch())
		default:
			s.t.Logf("%s: passes", file)
		}
	}
}
