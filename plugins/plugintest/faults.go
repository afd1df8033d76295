package plugintest

import (
	"context"

	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/sim"
)

// faults are the ways in which calls go wrong. A call that had its effect may be answered only as one of which nobody knows.
var faults = []sim.Fault{
	{Kind: sim.FaultDriver, Code: codes.Internal},
	{Kind: sim.FaultDriver, Code: codes.Unavailable},
	{Kind: sim.FaultDriverLost, Code: codes.DeadlineExceeded},
	{Kind: sim.FaultHang},
	{Kind: sim.FaultRefused},
	{Kind: sim.FaultLost},
	{Kind: sim.FaultConflict},
}

// faultStrategy has one call of the plugin go wrong: of those that can, that of a number.
type faultStrategy struct {
	task   string
	fault  sim.Fault
	number int // from 0; below 0 when it has gone wrong
}

// Decide is the ordinary course, but for the fault.
func (f *faultStrategy) Decide(d *sim.Decision) sim.Move {
	a := d.Task(0)
	action, ok := a.Pending()
	if !ok || a.Name() != f.task || !f.fault.Applies(action) {
		return sim.Move{}
	}
	if f.number--; f.number != -1 {
		return sim.Move{}
	}
	return sim.Move{Fault: f.fault}
}

// defaultOrder is the ordinary course.
func defaultOrder() sim.Strategy { return sim.NewReplayStrategy(nil) }

// checkFaults has each call of each kind go wrong, while the pair is done or undone. Then it is done again, or not, and undone.
func (c *checker) checkFaults(p pair, undo bool) {
	for _, fault := range faults {
		for _, again := range []bool{false, true} {
			for n := 0; c.checkFault(p, undo, again, &faultStrategy{fault: fault, number: n}); n++ {
			}
		}
	}
}

// checkFault lets one call go wrong. It returns whether there was such a call.
func (c *checker) checkFault(p pair, undo, again bool, f *faultStrategy) (happened bool) {
	c.inWorld(func(w *world) {
		before, ok := w.prepared(p)
		if !ok || undo && !w.done(p, "") {
			return
		}
		what, call := p.do, w.doPair
		if undo {
			what, call = p.undo, w.undoPair
		}
		f.task = w.Process.Name() + "/" + taskName
		w.stepped.SetStrategy(f)
		ok, err := call(p)
		w.stepped.SetStrategy(defaultOrder())
		if happened = f.number < 0; !happened || !ok {
			return
		}
		if !undo {
			w.wantClass(p, err, before)
		}
		w.wantEnd(p, " after "+what+" met a fault ("+string(f.fault.Kind)+")", again, before)
	})
	return happened
}

// checkCrashes ends the process at each step of a call. The next one undoes it, or first does it again.
func (c *checker) checkCrashes(p pair, undo bool) {
	for _, again := range []bool{false, true} {
		for n := 1; c.checkCrash(p, undo, again, n); n++ {
		}
	}
}

// checkCrash ends the process after so many steps. It returns whether the call was not over by then.
func (c *checker) checkCrash(p pair, undo, again bool, steps int) (cut bool) {
	c.inWorld(func(w *world) {
		before, ok := w.prepared(p)
		if !ok || w.Restart == nil || undo && !w.done(p, "") {
			return
		}
		what, call := p.do, p.doIt
		if undo {
			what, call = p.undo, p.undoIt
		}
		f := w.start(func(ctx context.Context) error { return call(ctx, w) })
		cut = true
		for i := 0; i < steps && cut; i++ {
			cut = w.stepped.Step() && !f.done.Load()
		}
		if cut = cut && w.restart(); cut {
			w.wantEnd(p, " after "+what+" was cut off", again, before)
		}
	})
	return cut
}
