package simtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// schedulesMax is how many schedules of one workload are run where the Budget does not say.
const schedulesMax = 500

// Budget is how far the schedules of each workload are searched; see explore.Portfolio. The zero Budget is one hold,
// nothing going wrong.
type Budget struct {
	Holds     int            // how many at once, one after the other; 0: 1
	Restarts  bool           // parts crash, too: once each, at each of their calls
	Faults    sim.FaultSpecs // what may go wrong besides; which of them may is drawn for each workload
	Schedules int            // how many at most for one workload; 0: SchedulesMax
}

// Explore is a property: whatever the workload, no schedule within the budget goes wrong. The workload is drawn first; the
// schedules are then searched without drawing, so that rapid shrinks what users do and the search the order of events.
// world says what the world is made of, its rules, and what users there are anyhow; it is not changed.
//
// On a failure rt's log has the story. Explore does not keep it: see Check.
func Explore(rt *rapid.T, world scenario.Scenario, b Budget, workloads ...Workload) {
	rt.Helper()
	p := &property{world: world, budget: b, workloads: workloads}
	f, err := p.check(rt)
	report(rt, f, err)
}

// Check checks the property of Explore with rapid, as rapid.Check would. Failures that were kept are run before anything is
// drawn, and a new one is kept when it has been shrunk.
//
// Once a schedule has failed, only the same rule is looked for, and in not many more schedules than the last failure took:
// the workloads that pass would otherwise make shrinking slow.
func Check(t testing.TB, world scenario.Scenario, b Budget, workloads ...Workload) {
	t.Helper()
	p := &property{world: world, budget: b, workloads: workloads, searched: map[string]*explore.Failure{}}
	runSaved(t, &world, p.config())
	defer func() {
		t.Logf("%d workloads, %d of them different, %d schedules", p.drawn, len(p.searched), p.schedules)
		if p.failure != nil { // rapid ends with a run of the smallest one
			saveFailure(t, p.failure)
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		f, err := p.check(rt)
		p.recordFailure(f)
		report(rt, f, err)
	})
}

// report ends the property's run. It is the only place where one fails: rapid takes failures of different places for
// different ones.
func report(rt *rapid.T, f *explore.Failure, err error) {
	if f != nil {
		rt.Log(failureText(f, ""))
		err = fmt.Errorf("%w\nunder %q", f, f.Scenario.Schedule)
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// property is a property while it is checked.
type property struct {
	world     scenario.Scenario
	budget    Budget
	workloads []Workload

	rule    string           // the one that was broken first; "": none yet
	limit   int              // how many schedules are run after a failure; 0: there was none, as the budget says
	failure *explore.Failure // the last one

	drawn     int                         // workloads
	searched  map[string]*explore.Failure // by text, those that differ; nil: none was found
	schedules int                         // of all of them
}

// recordFailure remembers a failure.
func (p *property) recordFailure(f *explore.Failure) {
	if f == nil {
		return
	}
	p.rule, p.limit, p.failure = f.Scenario.Violates, f.Schedules+20, f
}

func (p *property) config() explore.Config {
	return explore.Config{
		Depth: p.budget.Holds, Restarts: p.budget.Restarts, Count: cmp.Or(p.budget.Schedules, schedulesMax), Rule: p.rule,
	}
}

// check draws a workload, and searches its schedules.
func (p *property) check(rt *rapid.T) (*explore.Failure, error) {
	d := &Draft{world: p.world}
	for _, w := range p.workloads {
		w(rt, d)
	}
	d.world.Faults = swarm(rt, p.budget.Faults)
	s := d.scenario()
	if len(s.Users) == 0 {
		return nil, nil // nothing happens where nobody acts
	}
	p.drawn++
	text := s.String()
	if f, searched := p.searched[text]; searched {
		return f, nil // rapid often draws the same from other numbers
	}
	f, err := p.search(rt.Context(), s)
	if err == nil && p.searched != nil {
		p.searched[text] = f
	}
	return f, err
}

// search searches the schedules of a workload.
func (p *property) search(ctx context.Context, s *scenario.Scenario) (*explore.Failure, error) {
	cfg := p.config()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	if p.limit > 0 {
		// Not by Count, which also says how the schedules are shared out among the strategies.
		cfg.Progress = func(r explore.Report) {
			if r.Schedules > p.limit {
				enough()
			}
		}
	}
	r, err := explore.Search(ctx, s, cfg)
	p.schedules += r.Schedules
	if r.Failure != nil {
		p.schedules += r.Failure.ShrinkRuns
	}
	if p.limit > 0 && errors.Is(err, context.Canceled) {
		err = nil
	}
	return r.Failure, err
}

// swarm draws which of the risks there are: first none, last all.
func swarm(rt *rapid.T, risks sim.FaultSpecs) sim.FaultSpecs {
	if len(risks) == 0 {
		return nil
	}
	which := rapid.IntRange(0, 1<<len(risks)-1).Draw(rt, "faults")
	var drawn sim.FaultSpecs
	for i, r := range risks {
		if which>>i&1 == 1 {
			drawn = append(drawn, r)
		}
	}
	return drawn
}
