package simtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/sim"
)

// SearchBubble runs a test in a [Bubble] under many schedules, until one fails or the budget is spent:
//
//	simtest.Budget{Holds: 2, Faults: faults, Schedules: 300}.SearchBubble(t, func(t *testing.T, b *simtest.BubbleWorld) {
//		go controller.Run(b.Context(), b.Client("controller"))
//		…
//	})
//
// First comes the default order, that of [sim.FIFO]. Then one call at a time is held: a request until
// no other call is blocked, a watch also at its next events, for sixty decisions. Then each request
// of the default order fails once with each of the faults, and up to Holds calls are held. The other
// schedules are drawn from seeds, by turns with a random priority for each call (see [sim.NewPOS]) and
// uniformly, with faults at their rates or times. Only requests fail, and not those that the goroutine
// of run itself makes. The target of a fault spec is the beginning of a client's name or a verb.
// Restarts and events other than faults need a world of sim.Stepped and end the test.
//
// The schedule of a failure is shrunk: deviations are dropped as long as a replay fails, with any
// error. Each such replay logs its errors again; the last message has the story and the schedule. The
// schedule is saved in testdata/explore/TEST and runs first from then on. Without a failure, the log has
// the conditions of [trace.Sometimes] that never held.
//
// # Limits
//
// Replay is not exact; see Bubble. A deviation names the client and the call that it concerns, and
// applies to it up to twenty steps late. So a replay survives some reordering by the Go scheduler, but
// not random names of objects. If no replay fails, the message says so and shows the failed run.
// Run the test with GOMAXPROCS=1 to make that rare. A hold cannot last beyond Settle, since time
// passes only when no call is blocked.
func (b Budget) SearchBubble(t *testing.T, run func(t *testing.T, b *BubbleWorld)) {
	t.Helper()
	s := &bubbleSearch{t: t, budget: b, run: run, most: cmp.Or(b.Schedules, schedulesMax)}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	s.runSaved()
	if err := s.search(); err != nil && !errors.Is(err, errEnoughRuns) {
		t.Fatal(err)
	}
	t.Logf("no failure: %d schedules, %d steps", s.schedules, s.steps)
	reportNever(t, s.sum.Never(), nil)
}

// errEnoughRuns ends a search at its bound.
var errEnoughRuns = errors.New("enough")

// A bubbleSearch is a search in progress.
type bubbleSearch struct {
	t      *testing.T
	budget Budget
	run    func(t *testing.T, b *BubbleWorld)
	most   int // bound on the number of schedules

	defaultRun *bubbleRun
	held       []heldRun // with the most holds so far
	schedules  int
	steps      int            // in all of them
	sum        explore.Report // its conditions are those of all bubbles
}

// A bubbleRun is a bubble that has ended.
type bubbleRun struct {
	*gateProbe
	world  *BubbleWorld
	failed bool
}

// check returns an error for a budget that a bubble cannot spend.
func (s *bubbleSearch) check() error {
	if s.budget.Restarts {
		return errors.New("budget: Restarts: a bubble has no processes that could restart: use a component of a stepped world")
	}
	for _, spec := range s.budget.Faults {
		if _, err := sim.ParseFault(spec.Name); err != nil {
			return fmt.Errorf("budget: %w: a bubble has no events", err)
		}
	}
	// It is created only for the check of the numbers.
	_, err := sim.NewFaultInjector(nil, 0, s.budget.Faults, 1)
	return err
}

// runUnder runs a bubble. A failed one ends its goroutine, as t.FailNow does.
func (s *bubbleSearch) runUnder(strategy gateStrategy) *bubbleRun {
	r := &bubbleRun{gateProbe: &gateProbe{gateStrategy: strategy}, failed: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runBubble(s.t, &r.world, nil, r.gateProbe, s.run)
		r.failed = false
	}()
	<-done
	return r
}

// try runs the next schedule of the search. If it fails, the test ends.
func (s *bubbleSearch) try(strategy gateStrategy, how string) (*bubbleRun, error) {
	s.t.Helper()
	if s.schedules >= s.most {
		return nil, errEnoughRuns
	}
	r := s.runUnder(strategy)
	s.schedules++
	s.steps += r.gateProbe.steps
	if r.world != nil {
		s.sum.AddConditions(r.world.log.Conditions())
	}
	if r.failed {
		s.report(r, fmt.Sprintf("found in schedule %d of the search (%s)", s.schedules, how))
	}
	return r, nil
}

// search runs all stages.
func (s *bubbleSearch) search() error {
	s.t.Helper()
	var err error
	if s.defaultRun, err = s.try(newGateSchedule(nil), "the default order"); err != nil {
		return err
	}
	s.held = []heldRun{{nil, s.defaultRun.choiceSteps}}
	stages := []func() error{s.hold, s.faults}
	for range s.budget.Holds - 1 {
		stages = append(stages, s.hold)
	}
	for _, stage := range append(stages, s.random) {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// A heldRun is a schedule of holds and the steps at which another hold can be added.
type heldRun struct {
	schedule    sim.Schedule
	choiceSteps []int
}

// hold runs every schedule with one more hold than those run before.
func (s *bubbleSearch) hold() error {
	s.t.Helper()
	var longer []heldRun
	for _, h := range s.held {
		for _, step := range h.choiceSteps {
			schedule := append(slices.Clone(h.schedule), sim.Deviation{Step: step, What: sim.DeviationHold})
			r, err := s.try(newGateSchedule(schedule), plural(len(schedule), "hold"))
			if err != nil {
				return err
			}
			later := slices.DeleteFunc(r.choiceSteps, func(at int) bool { return at < step })
			longer = append(longer, heldRun{r.applied(), later})
		}
	}
	s.held = longer
	return nil
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// faults runs every schedule in which one request of the default order fails.
func (s *bubbleSearch) faults() error {
	s.t.Helper()
	for _, spec := range s.budget.Faults {
		fault, err := sim.ParseFault(spec.Name)
		if err != nil {
			return err
		}
		for _, c := range s.defaultRun.calls {
			if c.byTest || !fault.Applies(c.action) || !targets(spec, c.name, c.action.Verb) {
				continue
			}
			d := sim.Deviation{Step: c.step, What: fault.String(), Subject: c.label}
			if _, err := s.try(newGateSchedule(sim.Schedule{d}), "the fault "+fault.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// random runs schedules drawn from seeds, up to the bound.
func (s *bubbleSearch) random() error {
	s.t.Helper()
	for seed := uint64(0); ; seed++ {
		if _, err := s.try(newGateRandom(seed, s.budget.Faults, s.defaultRun.gateProbe.steps), fmt.Sprintf("seed %d", seed)); err != nil {
			return err
		}
	}
}
