package explore

import (
	"cmp"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
)

// sample runs so many schedules that are drawn from seeds, with what goes wrong in them.
func (e *search) sample(strategy Strategy, count int) error {
	for i := range count * e.cfg.Shards {
		if !e.isMine() {
			continue
		}
		noting := &sim.RecordingStrategy{}
		var err error
		noting.Strategy, err = e.newStrategy(strategy, e.cfg.Seed+uint64(i))
		if err != nil {
			return err
		}
		r, err := e.run(noting)
		if err != nil {
			return err
		}
		if e.failed(r) {
			if err := e.found(noting.Schedule, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// newStrategy makes the strategy of a seed. Which of the risks are there at all is drawn, too: a world in which one thing goes wrong
// again and again comes to places where one in which everything does never comes.
func (e *search) newStrategy(strategy Strategy, seed uint64) (sim.Strategy, error) {
	steps := e.defaultRun.Steps
	var s sim.Strategy
	switch strategy {
	case PCT:
		s = sim.NewPCT(seed, cmp.Or(e.cfg.Depth, 3), steps)
	case POS:
		s = sim.NewPOS(seed)
	default:
		s = sim.NewRandom(seed)
	}
	if len(e.faultSpecs) == 0 {
		return s, nil
	}
	return sim.NewFaultInjector(s, seed, swarm(seed, e.faultSpecs), steps+steps/2, cluster.EventKinds...)
}

// swarm draws which of the risks are there: each with an even chance, all of them for every fourth seed.
func swarm(seed uint64, risks sim.FaultSpecs) sim.FaultSpecs {
	if seed%4 == 0 {
		return risks
	}
	chance := sim.NewSeeded(seed)
	var drawn sim.FaultSpecs
	for _, r := range risks {
		if chance.Choose(2) == 0 {
			drawn = append(drawn, r)
		}
	}
	return drawn
}

// runUncounted runs a schedule that is no part of the search.
func (e *search) runUncounted(strategy sim.Strategy) (*scenario.Result, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := e.scenario.Run(e.ctx, scenario.Options{Strategy: strategy, Pool: e.pool, StepsMax: e.bound()})
	if err == nil {
		e.judge(r)
	}
	return r, err
}
