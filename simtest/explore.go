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

// schedulesMax is the default bound on the schedules of one workload.
const schedulesMax = 500

// A Budget bounds the search of the schedules of each workload; see explore.Portfolio. The zero
// Budget is one hold and no faults.
type Budget struct {
	Holds     int            // maximum number of holds; 0: 1
	Restarts  bool           // each component also crashes once, at each of its calls
	Faults    sim.FaultSpecs // possible faults; which of them apply is drawn for each workload
	Schedules int            // maximum per workload; 0: 500
}

// Explore is a property: for every workload, no schedule within the budget fails. It draws the
// workload first and then searches schedules without drawing. rapid therefore shrinks the workload,
// and the search shrinks the schedule. world has the components of the world, its rules, and users
// that are always present; Explore does not change it.
//
// The log of rt has the story of a failure. Explore does not save it: see Check.
func Explore(rt *rapid.T, world scenario.Scenario, b Budget, workloads ...Workload) {
	rt.Helper()
	p := &property{origin: originOf(rt, "Explore"), world: world, budget: b, workloads: workloads}
	f, err := p.check(rt)
	p.report(rt, f, err)
}

// Check checks the property of Explore with rapid, as rapid.Check does. It runs saved failures
// before it draws, and saves a new failure after shrinking.
//
// Once a schedule has failed, Check looks only for violations of the same rule, in few more
// schedules than the last failure took. Otherwise passing workloads would make shrinking slow.
//
// rapid's own file of a failure, in testdata/rapid, is not kept: it would contain the same failure
// in another form. Check draws no further workloads when the deadline of the test is near. The log says
// which conditions of [trace.Sometimes] never held; the test fails if world names one of these.
func Check(t testing.TB, world scenario.Scenario, b Budget, workloads ...Workload) {
	t.Helper()
	check(t, originOf(t, "Check"), world, b, workloads...)
}

// check is Check for a function of this package.
func check(t testing.TB, o origin, world scenario.Scenario, b Budget, workloads ...Workload) {
	t.Helper()
	p := &property{
		origin: o, world: world, budget: b, workloads: workloads, searched: map[string]*explore.Failure{},
	}
	p.runSaved(t, p.withGo, p.config())
	ctx, cancel := untilDeadline(t)
	defer cancel()
	p.deadline = ctx
	defer func() {
		t.Logf("%d workloads, %d of them different, %d schedules", p.drawn, len(p.searched), p.schedules)
		if ctx.Err() != nil {
			t.Logf("stopped before the deadline of the test")
		}
		if p.failure != nil { // rapid ends with a run of the smallest failure
			p.checkSaved(t, p.saveFailure(t, p.failure))
			return
		}
		reportNever(t, p.sum.Never(), world.Sometimes)
	}()
	rapid.Check(rapidTB{t}, func(rt *rapid.T) {
		f, err := p.check(rt)
		p.recordFailure(f)
		p.report(rt, f, err)
	})
}

// withGo returns a scenario that was read with the parts that its text lacks.
func (p *property) withGo(s *scenario.Scenario) (*scenario.Scenario, error) {
	return withDrawn(s, p.world, p.workloads)
}

// checkSaved logs if a failure that was just saved does not fail again.
func (p *property) checkSaved(t testing.TB, file string) {
	t.Helper()
	if file == "" || !p.failure.Scenario.OnlyInGo() {
		return
	}
	s, err := p.withGo(Read(t, file))
	if err == nil {
		var r *scenario.Result
		if r, err = explore.Replay(t.Context(), s); err == nil && scenario.RuleID(r.Failure) != s.Violates {
			err = fmt.Errorf("%s is not violated", s.Violates)
		}
	}
	if err != nil {
		t.Logf("%s: the saved failure cannot be replayed: %v: draw the parameters of components and scripts with simtest.Draw", file, err)
	}
}

// report ends the property's run. It is the only place where a run fails: rapid takes failures at
// different places for different ones.
func (o origin) report(rt *rapid.T, f *explore.Failure, err error) {
	if f != nil {
		rt.Log(o.failureText(f, ""))
		err = fmt.Errorf("%w\nunder %q", f, f.Scenario.Schedule)
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// A property is a property during its check.
type property struct {
	origin
	world     scenario.Scenario
	budget    Budget
	workloads []Workload
	deadline  context.Context //nolint:containedctx // of the one Check; nil: none

	rule    string           // the first violated rule; "": none yet
	limit   int              // bound on schedules after a failure; 0: no failure yet, the budget applies
	failure *explore.Failure // the last one

	drawn     int                         // number of workloads
	searched  map[string]*explore.Failure // failures of different workloads by their text; nil: none was found
	schedules int                         // of all workloads

	sum explore.Report // its conditions are those of all workloads
}

// recordFailure records a failure.
func (p *property) recordFailure(f *explore.Failure) {
	if f == nil {
		return
	}
	p.rule, p.limit, p.failure = f.Scenario.Violates, f.Schedules+20, f
}

func (p *property) config() explore.Config {
	return explore.Config{
		Depth: p.budget.Holds, Restarts: p.budget.Restarts,
		Count: cmp.Or(p.budget.Schedules, schedulesMax), Rule: p.rule,
	}
}

// check draws a workload and searches its schedules.
func (p *property) check(rt *rapid.T) (*explore.Failure, error) {
	d := &Draft{world: p.world}
	for _, w := range p.workloads {
		w(rt, d)
	}
	d.world.Faults = swarm(rt, p.budget.Faults)
	s := d.scenario()
	if len(s.Users) == 0 && (len(s.Drawn) == 0 || !d.inGo) {
		return nil, nil // without users and drawn components nothing happens
	}
	p.drawn++
	text := s.String()
	known := !d.inGo || len(s.Drawn) > 0 // the text tells it from all others
	if f, searched := p.searched[text]; searched && (known || p.isLate()) {
		return f, nil // rapid often draws the same workload from other numbers
	}
	ctx := rt.Context()
	if p.deadline != nil {
		ctx = p.deadline
	}
	if p.isLate() {
		return nil, nil
	}
	f, err := p.search(ctx, s)
	if f == nil && p.isLate() {
		return nil, nil // the search was cancelled
	}
	if err == nil && p.searched != nil {
		p.searched[text] = f
	}
	return f, err
}

// isLate reports whether the deadline of the test is near.
func (p *property) isLate() bool { return p.deadline != nil && p.deadline.Err() != nil }

// search searches the schedules of a workload.
func (p *property) search(ctx context.Context, s *scenario.Scenario) (*explore.Failure, error) {
	cfg := p.config()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	if p.limit > 0 {
		// Not by Count, which also divides the schedules among the strategies.
		cfg.Progress = func(r explore.Report) {
			if r.Schedules > p.limit {
				enough()
			}
		}
	}
	r, err := explore.Search(ctx, s, cfg)
	p.schedules += r.Schedules
	p.sum.AddConditions(r.Conditions)
	if r.Failure != nil {
		p.schedules += r.Failure.ShrinkRuns
	}
	if p.limit > 0 && errors.Is(err, context.Canceled) {
		err = nil
	}
	return r.Failure, err
}

// swarm draws a subset of the fault specs: first none, last all.
func swarm(rt *rapid.T, specs sim.FaultSpecs) sim.FaultSpecs {
	if len(specs) == 0 {
		return nil
	}
	which := rapid.IntRange(0, 1<<len(specs)-1).Draw(rt, "faults")
	var drawn sim.FaultSpecs
	for i, r := range specs {
		if which>>i&1 == 1 {
			drawn = append(drawn, r)
		}
	}
	return drawn
}
