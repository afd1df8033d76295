package explore

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// A corpus has the schedules that were the first to exercise something: a call with a stale cache, a
// fault, or both. A search varies them, those that lead to rare circumstances first. They are files
// of a directory, each with a scenario that "volsim replay" runs, so the next search and other shards
// begin with them.
type corpus struct {
	dir     string
	name    string // of the scenario; files are NAME-HASH.txt
	chance  sim.Chooser
	entries []*corpusEntry
	known   map[string]bool // schedules, by text
}

// A corpusEntry is a schedule up to the last call for which it was kept.
type corpusEntry struct {
	schedule sim.Schedule
	first    []firstCall
	varied   int // number of variations
}

// A firstCall is the first call in a circumstance.
type firstCall struct {
	calls *calls
	point CoveragePoint
	step  int
}

// newCorpus returns the corpus of a directory, without its schedules.
func newCorpus(dir, name string, seed uint64) *corpus {
	return &corpus{dir: dir, name: filepath.Base(cmp.Or(name, "drawn")), chance: sim.NewSeeded(seed), known: map[string]bool{}}
}

// read returns the schedules of the directory, by file name. A directory that does not exist is empty.
func (c *corpus) read() ([]sim.Schedule, error) {
	files, err := filepath.Glob(filepath.Join(c.dir, c.name+"-????????.txt"))
	if err != nil {
		return nil, err
	}
	var all []sim.Schedule
	for _, file := range files { // sorted by name
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s, err := scenario.Parse(c.name, string(text))
		if err != nil {
			return nil, fmt.Errorf("corpus: %s: %w", file, err)
		}
		all = append(all, s.Schedule)
	}
	return all, nil
}

// keep keeps a schedule up to the last of the calls that it was the first to make, and writes its file.
func (c *corpus) keep(s *scenario.Scenario, schedule sim.Schedule, first []firstCall) error {
	last := first[len(first)-1].step
	end := slices.IndexFunc(schedule, func(d sim.Deviation) bool { return d.Step > last })
	if end >= 0 {
		schedule = schedule[:end]
	}
	text := schedule.String()
	c.entries = append(c.entries, &corpusEntry{schedule: slices.Clone(schedule), first: first})
	if text == "" || c.known[text] {
		return nil
	}
	c.known[text] = true
	h := fnv.New32a()
	h.Write([]byte(text))
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	content := s.WithSchedule(schedule, "").In(c.dir).String()
	return writeFile(filepath.Join(c.dir, fmt.Sprintf("%s-%08x.txt", c.name, h.Sum32())), []byte(content))
}

// rarest returns the entry to vary next: of those that were varied least, relative to the number of
// circumstances that they were the first to reach, the one whose rarest circumstance is the rarest.
// nil: there is none.
func (c *corpus) rarest() *corpusEntry {
	if len(c.entries) == 0 {
		return nil
	}
	return slices.MinFunc(c.entries, func(a, b *corpusEntry) int {
		return cmp.Or(cmp.Compare(a.varied/len(a.first), b.varied/len(b.first)), cmp.Compare(a.rarity(), b.rarity()))
	})
}

// rarity returns how often the rarest circumstance of the entry was exercised.
func (e *corpusEntry) rarity() int {
	least := e.first[0].times()
	for _, f := range e.first[1:] {
		least = min(least, f.times())
	}
	return least
}

func (f firstCall) times() int { return f.calls.points[f.point] }

// readCorpus runs the schedules of the directory.
func (e *search) readCorpus() error {
	schedules, err := e.corpus.read()
	if err != nil {
		return err
	}
	for _, s := range schedules {
		e.corpus.known[s.String()] = true
		if _, _, err := e.try(s); err != nil {
			return err
		}
	}
	return nil
}

// vary runs a variation of a schedule of the corpus.
func (e *search) vary() error {
	one := e.corpus.rarest()
	if one == nil {
		return nil
	}
	one.varied++
	call := one.first[e.corpus.chance.Choose(len(one.first))]
	recording := &sim.RecordingStrategy{}
	prefix := sim.NewReplayStrategy(one.schedule)
	fault := call.calls.untried(call.point.Stale)
	switch {
	case fault != "":
		recording.Strategy = &aim{ReplayStrategy: prefix, step: call.step, fault: fault}
	default:
		seed := e.cfg.Seed + uint64(e.corpus.chance.Choose(1<<30))
		then, err := e.newStrategy(POS, seed)
		if err != nil {
			return err
		}
		recording.Strategy = &continuation{ReplayStrategy: prefix, step: 1 + e.corpus.chance.Choose(call.step), then: then}
	}
	r, err := e.run(recording)
	if err != nil || !e.failed(r) {
		return err
	}
	return e.found(recording.Schedule, r)
}

// untried returns a fault that the call never had while a cache was stale, or "".
func (c *calls) untried(stale string) string {
	i := slices.IndexFunc(c.faults, func(fault string) bool { return c.points[CoveragePoint{Stale: stale, Fault: fault}] == 0 })
	if i < 0 || c.aimed[CoveragePoint{Stale: stale, Fault: c.faults[i]}] {
		return ""
	}
	c.aimed[CoveragePoint{Stale: stale, Fault: c.faults[i]}] = true
	return c.faults[i]
}

// An aim is the Strategy that replays a schedule, makes the call at one step fail, and follows the
// default order.
type aim struct {
	*sim.ReplayStrategy
	step  int
	fault string
}

// Decide returns the move of the schedule, with the fault at its step.
func (a *aim) Decide(d *sim.Decision) sim.Move {
	move := a.ReplayStrategy.Decide(d)
	if d.Step() != a.step || move.Event != "" {
		return move
	}
	if fault, err := sim.ParseFault(a.fault); err == nil {
		move.Fault = fault
		return move
	}
	crash := crashEvent + " " + d.Task(move.Option).Process()
	for _, event := range d.Events() {
		if event == crash && a.fault == crashFault || strings.HasPrefix(event, crash+" with ") && a.fault == oldListsFault {
			return sim.Move{Event: event}
		}
	}
	return move
}

// A continuation is the Strategy that replays a schedule up to a step, and then follows another one.
type continuation struct {
	*sim.ReplayStrategy
	step int
	then sim.Strategy
}

// Decide returns the move of the schedule, or of the other strategy.
func (c *continuation) Decide(d *sim.Decision) sim.Move {
	if d.Step() < c.step {
		return c.ReplayStrategy.Decide(d)
	}
	return c.then.Decide(d)
}

// errCorpus is the error for a corpus with several jobs.
var errCorpus = errors.New("corpus: want one job: what a schedule is the first to exercise depends on those before it")
