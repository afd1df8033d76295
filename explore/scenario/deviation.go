package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// describeDeviation says in words what a deviation does. later are the records from its step on.
func describeDeviation(d sim.Deviation, later []trace.Record) string {
	switch d.What {
	case sim.DeviationHold:
		return describeHold(d.Subject, later)
	case sim.DeviationPick:
		return "out of turn: " + trace.DescribeTask(d.Subject)
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
		return fmt.Sprintf("the next request of %s is answered 409 Conflict here, although nothing has changed", who)
	case sim.FaultRefused:
		return fmt.Sprintf("the API server is not there for the next request of %s", who)
	case sim.FaultLost:
		return fmt.Sprintf("the answer to the next request of %s gets lost: what it asks for is done", who)
	case sim.FaultDriver:
		return fmt.Sprintf("the driver fails the next call of %s with %s, and does nothing", who, fault.Code)
	case sim.FaultDriverLost:
		return fmt.Sprintf("the driver does what the next call of %s asks for, but answers %s", who, fault.Code)
	default:
		return fmt.Sprintf("the driver does what the next call of %s asks for, and does not answer", who)
	}
}

// describeHold says who is held back, before what, and until when.
func describeHold(subject string, later []trace.Record) string {
	who := trace.DescribeTask(subject)
	name := trace.TrimTaskNumber(subject)
	i := slices.IndexFunc(later, func(r trace.Record) bool { return r.Task == name })
	switch {
	case i < 0 && !strings.Contains(name, "/"): // a user may wait, or do what is no action of its own
		return who + " is held back here"
	case i < 0:
		return who + " is held back from here on"
	}
	next := later[i]
	before := ""
	if next.Kind == trace.KindAPI || next.Kind == trace.KindDriver {
		before = fmt.Sprintf(", before its %s of %s,", next.Verb, trace.ObjectName(next.Object))
	}
	return fmt.Sprintf("%s is held back here%s until step %d", who, before, next.HostStep)
}
