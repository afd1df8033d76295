package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// mark says in words what a deviation does. later are the records from its step on.
func mark(d sim.Deviation, later []trace.Record) string {
	switch d.What {
	case sim.Hold:
		return markHold(d.Subject, later)
	case sim.Pick:
		return "out of turn: " + strand(d.Subject)
	case sim.Event:
		return markEvent(d.Subject)
	}
	fault, err := sim.ParseFault(d.What)
	if err != nil {
		return d.String()
	}
	who := component(d.Subject)
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

// markHold says who is held back, before what, and until when.
func markHold(subject string, later []trace.Record) string {
	who := strand(subject)
	name := unnumbered(subject)
	i := slices.IndexFunc(later, func(r trace.Record) bool { return r.Actor == name })
	switch {
	case i < 0 && !strings.Contains(name, "/"): // a user may wait, or do what is no action of its own
		return who + " is held back here"
	case i < 0:
		return who + " is held back from here on"
	}
	next := later[i]
	before := ""
	if next.Kind == trace.KindAPI || next.Kind == trace.KindDriver {
		before = fmt.Sprintf(", before its %s of %s,", next.Verb, trace.Noun(next.Object))
	}
	return fmt.Sprintf("%s is held back here%s until step %d", who, before, next.Turn)
}

// markEvent says what befalls the world. See cluster.Misfortunes.
func markEvent(event string) string {
	verb, of, _ := strings.Cut(event, " ")
	first, rest, _ := strings.Cut(of, " ")
	switch verb {
	case "crash":
		if _, behind, lags := strings.Cut(rest, "with "); lags {
			resource, n, _ := strings.Cut(strings.TrimSuffix(behind, " behind"), " ")
			return fmt.Sprintf("%s is killed here and starts again, and its first list of %ss is %s old", first, trace.Noun(resource), events(n))
		}
		return first + " is killed here and starts again"
	case "stop":
		if node, is := driverAt(of); is {
			return fmt.Sprintf("the driver on %s ends here: what it has mounted stays", node)
		}
		return first + " is killed here and stays down"
	case "start":
		if node, is := driverAt(of); is {
			return fmt.Sprintf("the driver on %s starts again", node)
		}
		return first + " starts again"
	case "replicate":
		return fmt.Sprintf("a second %s starts beside the first: both are active", first)
	case "retire":
		return first + " ends: there is one of it again"
	case "relist":
		return fmt.Sprintf("the watch of %s on %ss breaks here, and it lists again", first, trace.Noun(rest))
	case "expire":
		return fmt.Sprintf("the API server forgets the old events of %ss: who is behind has to list again", trace.Noun(of))
	case "reboot":
		return first + " reboots here: its kubelet starts again, and its mounts are gone"
	case "lose":
		return first + " is lost here: its kubelet is down, its mounts stay"
	case "recover":
		return first + " comes back"
	case "tick":
		return "time moves on here, although something else could happen first"
	default:
		return event
	}
}

// driverAt is the node of "driver(NODE)".
func driverAt(of string) (node string, is bool) {
	node, is = strings.CutPrefix(of, "driver(")
	return strings.TrimSuffix(node, ")"), is
}

func events(n string) string {
	if n == "1" {
		return "1 event"
	}
	return n + " events"
}

// unnumbered is an actor's name without the number that tells it from others of its name.
func unnumbered(subject string) string {
	at := strings.LastIndex(subject, "#")
	if at < 0 || at < strings.Index(subject, "/") { // "pvcontroller#2/claims" is a replica
		return subject
	}
	return subject[:at]
}

// component is the part, or the user, that an actor belongs to.
func component(actor string) string {
	name, _, _ := strings.Cut(actor, "/")
	return name
}

// strand names an actor in words: "the pods cache of pvcprotection", "pvcontroller/claims", "alice".
func strand(actor string) string {
	part, strand, within := strings.Cut(unnumbered(actor), "/")
	if resource, is := strings.CutPrefix(strand, "cache "); is {
		return fmt.Sprintf("the %s cache of %s", strings.TrimPrefix(trace.Noun(resource), "the "), part)
	}
	if !within || strand == "" || strand == part {
		return part
	}
	if i := strings.Index(strand, " kubernetes.io/"); i >= 0 { // an operation on one volume
		strand = strand[:i]
	}
	return part + "/" + strand
}
