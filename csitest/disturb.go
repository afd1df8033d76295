package csitest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A disturbance is what happens to one call.
type disturbance struct {
	kind disturbanceKind
	code codes.Code // of lost and refused
}

type disturbanceKind string

const (
	lost      disturbanceKind = "lost"           // it takes effect, and the caller gets an error
	hang      disturbanceKind = "hang"           // it takes effect, and the caller gets no answer
	refused   disturbanceKind = "refused"        // it fails without effect
	crash     disturbanceKind = "crash before"   // the caller crashes before the call takes effect
	crashLate disturbanceKind = "crash after"    // … when it has taken effect
	restarted disturbanceKind = "driver restart" // the response is lost, and the driver restarts
	delayed   disturbanceKind = "delayed"        // everything else comes first
	removed   disturbanceKind = "volume removed" // the response is lost, and an administrator deletes the volume
)

// String returns the text form: "lost Unavailable".
func (d disturbance) String() string {
	if d.code == codes.OK {
		return string(d.kind)
	}
	return string(d.kind) + " " + d.code.String()
}

// disturbancesOf returns the disturbances to try with an RPC, those with the plainest findings first.
func disturbancesOf(rpc string) []disturbance {
	all := []disturbance{{kind: lost, code: codes.Unavailable}, {kind: hang}}
	if rpc == "ControllerUnpublishVolume" {
		all = append(all, disturbance{kind: removed})
	}
	for _, code := range codesOf(rpc) {
		all = append(all, disturbance{kind: refused, code: code})
	}
	return append(all, disturbance{kind: crash}, disturbance{kind: crashLate}, disturbance{kind: restarted}, disturbance{kind: delayed})
}

// codesOf returns codes that the callers of an RPC treat in different ways: the operation goes on, its result
// is unknown, it has failed for good, and what is special for the RPC.
//
// Upstream: external-provisioner isFinalError, external-resizer isInfeasibleError, pkg/volume/csi
// isFinalError (v1.36).
func codesOf(rpc string) []codes.Code {
	all := []codes.Code{codes.Aborted, codes.DeadlineExceeded, codes.Internal}
	switch rpc {
	case "CreateVolume", "ControllerPublishVolume":
		return append(all, codes.ResourceExhausted)
	case "ControllerExpandVolume":
		return append(all, codes.InvalidArgument)
	case "NodeExpandVolume":
		return append(all, codes.FailedPrecondition, codes.InvalidArgument)
	default:
		return all
	}
}

// isInfeasible reports whether the caller does not try again what is refused, until something changes.
func (d disturbance) isInfeasible() bool {
	return d.kind == refused && (d.code == codes.InvalidArgument || d.code == codes.FailedPrecondition)
}

// phrase returns what happened to an RPC, as the end of a sentence: "after NodeStageVolume with a lost
// response".
func (d disturbance) phrase(rpc string) string {
	switch d.kind {
	case lost, hang, removed:
		return fmt.Sprintf("after %s with %s", rpc, d.lost())
	case refused:
		return fmt.Sprintf("after %s was refused with %s", rpc, d.code)
	case crash:
		return fmt.Sprintf("after a crash of the caller before %s", rpc)
	case crashLate:
		return fmt.Sprintf("after a crash of the caller after %s", rpc)
	case restarted:
		return fmt.Sprintf("after a restart of the driver after %s", rpc)
	case delayed:
		return fmt.Sprintf("after a delayed %s", rpc)
	default:
		return ""
	}
}

// lost says why a caller does not get an answer; "": it gets one.
func (d disturbance) lost() string {
	switch d.kind {
	case lost, restarted, removed:
		return "a lost response"
	case hang:
		return "a response that came too late"
	default:
		return ""
	}
}

// fault returns the fault to inject.
func (d disturbance) fault() sim.Fault {
	switch d.kind {
	case lost:
		return sim.Fault{Kind: sim.FaultDriverLost, Code: d.code}
	case restarted, removed:
		return sim.Fault{Kind: sim.FaultDriverLost, Code: codes.Unavailable}
	case hang:
		return sim.Fault{Kind: sim.FaultHang}
	case refused:
		return sim.Fault{Kind: sim.FaultDriver, Code: d.code}
	default:
		return sim.Fault{}
	}
}

// String returns the text form: "NodeStageVolume#1".
func (c numberedCall) String() string { return fmt.Sprintf("%s#%d", c.rpc, c.n) }

// parseCall returns the call of a text "RPC#N". Without a number it is the first.
func parseCall(text string) (numberedCall, error) {
	rpc, number, found := strings.Cut(text, "#")
	if !found {
		return numberedCall{rpc, 1}, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return numberedCall{}, fmt.Errorf("call %q: want RPC#N with N of at least 1", text)
	}
	return numberedCall{rpc, n}, nil
}

// A disturber follows the default order, and disturbs one call.
type disturber struct {
	observer *observer
	driver   string
	rpc      string
	number   int // of the call; 0: it has been disturbed
	how      disturbance

	events []string // to inject next, if they are possible
	holds  int      // decisions for which the call is still held
}

// holdMax is for how many decisions a delayed call is held. Everything that needs no time happens meanwhile.
const holdMax = 300

// Decide follows the default order, except for the disturbance.
func (d *disturber) Decide(at *sim.Decision) sim.Move {
	for len(d.events) > 0 {
		event := d.events[0]
		d.events = d.events[1:]
		if slices.Contains(at.Events(), event) {
			return sim.Move{Event: event}
		}
	}
	task := at.Task(0)
	action, calls := task.Pending()
	if !calls || action.Kind != trace.KindDriver || action.Verb != d.rpc || d.number == 0 {
		return sim.Move{}
	}
	if d.number > 1 {
		d.number--
		return sim.Move{}
	}
	if d.how.kind == delayed && d.holds < holdMax && at.Len() > 1 {
		d.holds++
		return sim.Move{Option: at.Len() - 1}
	}
	d.number = 0
	return d.disturb(task)
}

// disturb returns the move with which the call is disturbed.
func (d *disturber) disturb(task *sim.Task) sim.Move {
	component := task.Process()
	switch d.how.kind {
	case crash:
		d.observer.noteCrash(component)
		return sim.Move{Event: "crash " + component}
	case crashLate:
		d.observer.noteCrash(component)
		d.events = []string{"crash " + component}
	case restarted:
		target := "driver(" + d.driver + ")"
		if _, node, ok := strings.Cut(component, "kubelet("); ok {
			target = "driver(" + d.driver + "/" + node
		}
		d.events = []string{"stop " + target, "start " + target}
	case removed:
		d.observer.removeNext = true
	}
	if why := d.how.lost(); why != "" {
		d.observer.loseNext(d.rpc, why)
	}
	return sim.Move{Fault: d.how.fault()}
}

// A marker follows another strategy, and tells the observer what it injects. Lists of restarted callers are not
// old: what follows from that is not due to the driver.
type marker struct {
	sim.Strategy
	observer *observer
}

// Decide returns the move of the other strategy.
func (m marker) Decide(at *sim.Decision) sim.Move {
	move := m.Strategy.Decide(at)
	move.Event, _, _ = strings.Cut(move.Event, " with ")
	if component, ok := strings.CutPrefix(move.Event, "crash "); ok {
		m.observer.noteCrash(component)
	}
	if move.Event == "" {
		if action, calls := at.Task(move.Option).Pending(); calls && action.Kind == trace.KindDriver {
			switch move.Fault.Kind {
			case sim.FaultDriverLost:
				m.observer.loseNext(action.Verb, disturbance{kind: lost}.lost())
			case sim.FaultHang:
				m.observer.loseNext(action.Verb, disturbance{kind: hang}.lost())
			}
		}
	}
	return move
}

// An untilFinding follows another strategy, and ends the run with the first finding.
type untilFinding struct {
	sim.Strategy
	observer *observer
}

// Decide returns the move of the other strategy.
func (u untilFinding) Decide(at *sim.Decision) sim.Move {
	if u.observer.hasFinding() {
		return sim.Move{Stop: true}
	}
	return u.Strategy.Decide(at)
}
