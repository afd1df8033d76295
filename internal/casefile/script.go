package casefile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A fault makes requests fail.
type fault struct {
	request   string
	times     int // -1: always
	err       error
	effective bool // the request takes effect, and its answer is lost
	at        string
}

// A trigger executes acts at a request: just before it takes effect, or when it is sent.
type trigger struct {
	request string
	sent    bool
	acts    []Line
	at      string
}

var faultHead = regexp.MustCompile(`^(.+?)( (\d+) times| always)?: (.+)$`)

// Script adds the fault or trigger that a paragraph describes, and reports whether it describes
// one:
//
//	fail REQUEST: TEXT           fails the next such request, without effect
//	fail REQUEST 3 times: TEXT   fails the next three; "always" fails all
//	lose REQUEST                 loses the answer of the next such request, which takes effect
//	when REQUEST                 executes the lines just before the next such request takes effect
//	while REQUEST                executes the lines when the next such request is sent
func (r *Run) Script(p *Paragraph) bool {
	verb, request, _ := strings.Cut(p.Head, " ")
	switch verb {
	case "fail":
		m := faultHead.FindStringSubmatch(request)
		f := &fault{request: m[1], times: 1, err: r.world.Fault(m[1], m[4]), at: p.At}
		switch {
		case m[2] == " always":
			f.times = -1
		case m[3] != "":
			f.times, _ = strconv.Atoi(m[3])
		}
		r.faults = append(r.faults, f)
	case "lose":
		r.faults = append(r.faults, &fault{
			request: request, times: 1, err: r.world.Fault(request, "no answer"), effective: true, at: p.At,
		})
	case "when", "while":
		r.triggers = append(r.triggers, &trigger{request: request, sent: verb == "while", acts: p.Body, at: p.At})
	default:
		return false
	}
	return true
}

// ClearScript removes the faults and triggers.
func (r *Run) ClearScript() { r.faults, r.triggers = nil, nil }

// checkScript adds a problem for each fault and trigger that is left.
func (r *Run) checkScript() {
	for _, f := range r.faults {
		if f.times > 0 {
			r.Problem("%s: faults not injected: %d", f.at, f.times)
		}
	}
	for _, t := range r.triggers {
		r.Problem("%s: there was no such request", t.at)
	}
}

// Intercept returns the caller with the scripted faults and triggers.
func (r *Run) Intercept(caller sim.Caller) sim.Caller { return interceptor{caller, r} }

type interceptor struct {
	sim.Caller
	run *Run
}

func (i interceptor) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	r, request := i.run, i.run.world.Request(action)
	r.trigger(request, true)
	return i.Caller.Call(action, func() trace.Outcome {
		r.trigger(request, false)
		f := r.nextFault(request)
		if f != nil && !f.effective {
			return trace.Outcome{Err: f.err}
		}
		out := effect()
		if f != nil {
			out.Err = f.err
		}
		return out
	})
}

// trigger executes the acts of the next trigger at a request.
func (r *Run) trigger(request string, sent bool) {
	i := slices.IndexFunc(r.triggers, func(t *trigger) bool { return t.request == request && t.sent == sent })
	if i < 0 {
		return
	}
	t := r.triggers[i]
	r.triggers = slices.Delete(r.triggers, i, i+1)
	for _, act := range t.acts {
		if err := r.world.Do(act.Text); err != nil {
			r.Problem("%s: %v", act.At, err)
		}
	}
}

// nextFault returns the next fault of a request, or nil.
func (r *Run) nextFault(request string) *fault {
	for _, f := range r.faults {
		if f.request == request && f.times != 0 {
			if f.times > 0 {
				f.times--
			}
			return f
		}
	}
	return nil
}

// User returns a caller for the acts of other programs: it takes no steps and records nothing.
func (r *Run) User() sim.Caller { return userCaller{r.Host} }

type userCaller struct{ sim.Host }

func (userCaller) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }
