package plugintest

import (
	"context"

	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/sim"
)

// faults are the injected faults. A call that had its effect may only fail in a way that leaves its
// effect uncertain.
var faults = []sim.Fault{
	{Kind: sim.FaultDriver, Code: codes.Internal},
	{Kind: sim.FaultDriver, Code: codes.Unavailable},
	{Kind: sim.FaultDriverLost, Code: codes.DeadlineExceeded},
	{Kind: sim.FaultHang},
	{Kind: sim.FaultRefused},
	{Kind: sim.FaultLost},
	{Kind: sim.FaultConflict},
}

// A faultStrategy injects a fault into one call of the plugin: the one of that number among those
// to which it applies.
type faultStrategy struct {
	task   string
	fault  sim.Fault
	number int // from 0; negative once the fault is injected
}

// Decide follows the default order, except for the fault.
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

// defaultOrder returns the strategy of the default order.
func defaultOrder() sim.Strategy { return sim.NewReplayStrategy(nil) }

// checkFaults injects each fault into each call while the pair is done or undone. Then the pair is
// repeated, or not, and undone.
func (c *checker) checkFaults(p pair, undo bool) {
	for _, fault := range faults {
		for _, again := range []bool{false, true} {
			for n := 0; c.checkFault(p, undo, again, &faultStrategy{fault: fault, number: n}); n++ {
			}
		}
	}
}

// checkFault injects a fault into one call. It reports whether there was such a call.
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
		w.wantEnd(p, " after "+what+" with an injected fault ("+string(f.fault.Kind)+")", again, before)
	})
	return happened
}

// checkCrashes crashes the process at each step of a call. The restarted process undoes the call,
// or first repeats it.
func (c *checker) checkCrashes(p pair, undo bool) {
	for _, again := range []bool{false, true} {
		for n := 1; c.checkCrash(p, undo, again, n); n++ {
		}
	}
}

// checkCrash crashes the process after a number of steps. It reports whether the call was still
// running then.
func (c *checker) checkCrash(p pair, undo, again bool, steps int) (crashed bool) {
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
		crashed = true
		for i := 0; i < steps && crashed; i++ {
			crashed = w.stepped.Step() && !f.done.Load()
		}
		if crashed = crashed && w.restart(); crashed {
			w.wantEnd(p, " after "+what+" interrupted by a crash", again, before)
		}
	})
	return crashed
}
