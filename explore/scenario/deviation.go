package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// describeDeviation describes the effect of a deviation. later are the records from its step on.
func describeDeviation(d sim.Deviation, later []trace.Record) string {
	switch d.What {
	case sim.DeviationHold, sim.DeviationHoldUntilIdle:
		return describeHold(d.Subject, later)
	case sim.DeviationPick:
		return trace.DescribeTask(d.Subject) + " is scheduled out of order"
	case sim.DeviationEvent:
		verb, object, _ := strings.Cut(d.Subject, " ")
		return trace.DescribeEvent(verb, object)
	}
	fault, err := sim.ParseFault(d.What)
	if err != nil {
		return d.String()
	}
	who := trace.Process(d.Subject)
	switch fault.Kind {
	case sim.FaultConflict:
		return fmt.Sprintf("fault: the next request of %s gets 409 Conflict, without effect", who)
	case sim.FaultRefused:
		return fmt.Sprintf("fault: the next request of %s gets 503 Service Unavailable, without effect", who)
	case sim.FaultLost:
		return fmt.Sprintf("fault: the next request of %s takes effect, but its response is lost", who)
	case sim.FaultDriver:
		return fmt.Sprintf("fault: the next driver call of %s fails with %s, without effect", who, fault.Code)
	case sim.FaultDriverLost:
		return fmt.Sprintf("fault: the next driver call of %s takes effect, but fails with %s", who, fault.Code)
	default:
		return fmt.Sprintf("fault: the next driver call of %s takes effect, but gets no response", who)
	}
}

// describeHold describes which task is held, before which action, and until when.
func describeHold(subject string, later []trace.Record) string {
	who := trace.DescribeTask(subject)
	name := trace.TrimTaskNumber(subject)
	i := slices.IndexFunc(later, func(r trace.Record) bool { return r.Task == name })
	switch {
	case i < 0 && !strings.Contains(name, "/"): // a user may wait or act without a record of its own
		return who + " is held"
	case i < 0:
		return who + " is held from here on"
	}
	next := later[i]
	before := ""
	if next.Kind == trace.KindAPI || next.Kind == trace.KindDriver {
		before = fmt.Sprintf(", before its %s of %s,", next.Verb, trace.ObjectName(next.Object))
	}
	return fmt.Sprintf("%s is held%s until step %d", who, before, next.HostStep)
}
