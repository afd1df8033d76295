package explore

import (
	"cmp"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// sample runs schedules drawn from seeds, with faults.
func (e *search) sample(strategy Strategy, count int) error {
	for i := range count * e.cfg.Shards {
		if err := e.drawOne(strategy, e.cfg.Seed+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// drawOne runs the schedule of a seed, with faults, if it belongs to this shard.
func (e *search) drawOne(strategy Strategy, seed uint64) error {
	if !e.isMine() {
		return nil
	}
	recording := &sim.RecordingStrategy{}
	var err error
	if recording.Strategy, err = e.newStrategy(strategy, seed); err != nil {
		return err
	}
	r, err := e.run(recording)
	if err != nil {
		return err
	}
	if e.failed(r) {
		return e.found(recording.Schedule, r)
	}
	if e.cfg.Watch == nil {
		e.pool.Reuse(r.Trace)
	}
	return nil
}

// newStrategy returns the strategy of a seed. Which faults are possible at all is drawn, too: a
// world with one frequent fault reaches states that a world with all faults does not.
func (e *search) newStrategy(strategy Strategy, seed uint64) (sim.Strategy, error) {
	steps := e.defaultRun.Steps
	var s sim.Strategy
	switch strategy {
	case PCT:
		s = sim.NewPCT(seed, cmp.Or(e.cfg.Depth, 3), steps)
	case POS:
		s = sim.NewPOS(seed)
	case Walk:
		s = newWalk(seed, e.taskSteps)
	default:
		s = sim.NewRandom(seed)
	}
	if len(e.faultSpecs) == 0 {
		return s, nil
	}
	return sim.NewFaultInjector(s, seed, swarm(seed, e.faultSpecs), steps+steps/2, cluster.EventKinds...)
}

// swarm draws a subset of the fault specs: each with probability one half, and all of them for
// every fourth seed.
func swarm(seed uint64, specs sim.FaultSpecs) sim.FaultSpecs {
	if seed%4 == 0 {
		return specs
	}
	chance := sim.NewSeeded(seed)
	var drawn sim.FaultSpecs
	for _, r := range specs {
		if chance.Choose(2) == 0 {
			drawn = append(drawn, r)
		}
	}
	return drawn
}

// runUncounted runs a schedule that is not part of the search.
func (e *search) runUncounted(strategy sim.Strategy) (*scenario.Result, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := e.scenario.Run(e.ctx, scenario.Options{
		Strategy: strategy, Pool: e.pool, StepsMax: e.bound(), Watch: e.cfg.Watch, Callers: e.callers,
	})
	if err == nil {
		e.judge(r)
	}
	return r, err
}
