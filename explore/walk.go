package explore

import "github.com/volsim/volsim/sim"

// A walk is the Strategy of a uniform random walk: the next task is drawn with a probability in
// proportion to the number of steps that it has left, as far as the default order shows. All orders
// of independent steps are then equally likely, where a uniform choice among tasks favours those in
// which short tasks end early.
//
// Upstream: none; H. Zhao et al., "Selectively Uniform Concurrency Testing" (2025), URW.
type walk struct {
	chance sim.Chooser
	left   map[string]int // by task
}

// newWalk returns the walk of a seed. steps is the number of steps of each task in the default order.
func newWalk(seed uint64, steps map[string]int) *walk {
	left := make(map[string]int, len(steps))
	for task, n := range steps {
		left[task] = n
	}
	return &walk{sim.NewSeeded(seed), left}
}

// Decide draws the task that runs.
func (w *walk) Decide(d *sim.Decision) sim.Move {
	choice := 0
	if d.Len() > 1 {
		d.Task(d.Len() - 1) // in order
		sum := 0
		for i := range d.Len() {
			sum += w.weight(d.Task(i))
		}
		for at := w.chance.Choose(sum); ; choice++ {
			if at -= w.weight(d.Task(choice)); at < 0 {
				break
			}
		}
	}
	w.left[d.Task(choice).Name()]--
	return sim.Move{Option: choice}
}

// weight returns the number of steps that a task has left, at least 1.
func (w *walk) weight(t *sim.Task) int { return max(1, w.left[t.Name()]) }
