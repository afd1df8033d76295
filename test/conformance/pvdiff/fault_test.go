package pvdiff

import (
	"fmt"
	"strings"
	"sync"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/histories"
)

// fault is one request of the controller that goes wrong. The zero fault is none.
type fault struct {
	kind   sim.FaultKind
	verb   string // such as "update/status"
	object string // such as "persistentvolumes/v1"; "" is any but events
	nth    int    // of the requests that fit; 1 is the first
	often  bool   // and those after it, until oftenTimes went wrong
}

// oftenTimes is more than the five times that a controller tries to save a volume.
const oftenTimes = 7

func (f fault) String() string {
	object := f.object
	if object == "" {
		object = "anything"
	}
	text := fmt.Sprintf("%s: %s %s", f.kind, f.verb, object)
	if f.nth > 1 {
		text += fmt.Sprintf(" (the %d.)", f.nth)
	}
	if f.often {
		text += fmt.Sprintf(" and %d more", oftenTimes-1)
	}
	return text
}

// last is the last of the requests that fit which goes wrong.
func (f fault) last() int {
	if f.often {
		return f.nth + oftenTimes - 1
	}
	return f.nth
}

func (f fault) fits(action trace.Action) bool {
	return action.Kind == trace.KindAPI && action.Verb == f.verb && !strings.HasPrefix(action.Object, "events/") &&
		(f.object == "" || f.object == action.Object)
}

func (f fault) happen(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return histories.Fault{Kind: f.kind}.Apply(action, effect)
}

// faults is a Caller that lets go wrong what the armed fault says. It may be used concurrently.
type faults struct {
	sim.Caller
	mu    sync.Mutex
	armed fault // guarded by mu
	seen  int   // guarded by mu: requests that fitted
}

// met is how many requests have fitted the armed fault, as far as it matters.
func (f *faults) met() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(f.seen, f.armed.last())
}

func (f *faults) arm(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.seen = one, 0
}

// due returns the armed fault if it is this request's.
func (f *faults) due(action trace.Action) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed.kind == "" || !f.armed.fits(action) {
		return fault{}, false
	}
	f.seen++
	return f.armed, f.armed.nth <= f.seen && f.seen <= f.armed.last()
}

func (f *faults) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Caller.Call(action, func() trace.Outcome {
		if one, ok := f.due(action); ok {
			return one.happen(action, effect)
		}
		return effect()
	})
}
