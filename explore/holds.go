package explore

import (
	"fmt"

	"github.com/volsim/volsim/sim"
)

// holds runs every schedule with at most depth holds, fewest first.
func (e *search) holds(depth int) error { return e.holdsFrom(1, depth) }

// A heldSchedule is a schedule of holds and the steps at which another hold can be added.
type heldSchedule struct {
	schedule    sim.Schedule
	choiceSteps []int
}

// holdsFrom runs every schedule with from to depth holds. It runs those with fewer again where it
// needs to know how the run continues.
func (e *search) holdsFrom(from, depth int) error {
	level := []heldSchedule{{nil, e.choiceSteps}}
	for n := 1; n <= depth; n++ {
		var next []heldSchedule
		for _, h := range level {
			for _, step := range h.choiceSteps {
				longer, err := e.hold(h, step, n >= from, n < depth)
				if n >= from {
					err = e.goOn(err)
				}
				if err != nil {
					return err
				}
				if longer.choiceSteps != nil {
					next = append(next, longer)
				}
			}
		}
		level = next
	}
	e.report.Complete = fmt.Sprintf("no failure with at most %s", plural(depth, "hold"))
	return nil
}

// hold runs a schedule with one more hold, at a step. more says that further holds follow, so that
// the run must be known.
func (e *search) hold(h heldSchedule, step int, fresh, more bool) (heldSchedule, error) {
	longer := append(h.schedule[:len(h.schedule):len(h.schedule)], sim.Deviation{Step: step, What: sim.DeviationHold})
	mine := fresh && e.isMine()
	if !mine && !more {
		return heldSchedule{}, nil
	}
	if !mine {
		// It belongs to another shard or was run before, but the schedules that extend it may be ours.
		p := &probe{ReplayStrategy: sim.NewReplayStrategy(longer)}
		if _, err := e.runUncounted(p); err != nil {
			return heldSchedule{}, err
		}
		return heldSchedule{p.Applied(), after(p.choiceSteps, step)}, nil
	}
	_, p, err := e.try(longer)
	if err != nil || !more {
		return heldSchedule{}, err
	}
	return heldSchedule{p.Applied(), after(p.choiceSteps, step)}, nil
}

// longHolds runs every schedule with one task that is held until no other can run, where a hold of
// bounded length may end too early: if the default order has enough decisions from there on.
func (e *search) longHolds() error {
	for i, step := range e.choiceSteps {
		if len(e.choiceSteps)-i <= sim.HoldSteps {
			break
		}
		if err := e.tryIfMine(sim.Deviation{Step: step, What: sim.DeviationHoldUntilIdle}); err != nil {
			return err
		}
	}
	return nil
}

// after returns the steps from one on. A second hold at the same step is of the next task.
func after(steps []int, from int) []int {
	for i, s := range steps {
		if s >= from {
			return steps[i:]
		}
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
