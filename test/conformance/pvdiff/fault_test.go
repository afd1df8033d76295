package pvdiff

import (
	"fmt"
	"strings"
	"sync"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A fault is a request of the controller that fails. The zero fault is none.
type fault struct {
	kind   sim.FaultKind
	verb   string // such as "update/status"
	object string // such as "persistentvolumes/v1"; "": any but events
	nth    int    // which of the matching requests fails first, from 1
	often  bool   // the next ones fail too, repeatedTimes in all
}

// repeatedTimes is more than the five attempts of a controller to save a volume.
const repeatedTimes = 7

func (f fault) String() string {
	object := f.object
	if object == "" {
		object = "any object"
	}
	text := fmt.Sprintf("%s: %s %s", f.kind, f.verb, object)
	if f.nth > 1 {
		text += fmt.Sprintf(" (number %d)", f.nth)
	}
	if f.often {
		text += fmt.Sprintf(" and %d more", repeatedTimes-1)
	}
	return text
}

// last returns the number of the last matching request that fails.
func (f fault) last() int {
	if f.often {
		return f.nth + repeatedTimes - 1
	}
	return f.nth
}

func (f fault) matches(action trace.Action) bool {
	return action.Kind == trace.KindAPI && action.Verb == f.verb && !strings.HasPrefix(action.Object, "events/") &&
		(f.object == "" || f.object == action.Object)
}

// A faults is a Caller that injects the armed fault. It may be used concurrently.
type faults struct {
	sim.Caller
	mu    sync.Mutex
	armed fault // guarded by mu
	seen  int   // guarded by mu: matching requests
}

// matched returns the number of matching requests, up to the last one that fails.
func (f *faults) matched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(f.seen, f.armed.last())
}

func (f *faults) arm(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.seen = one, 0
}

// due returns the fault of a request.
func (f *faults) due(action trace.Action) (histories.Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed.kind == "" || !f.armed.matches(action) {
		return histories.Fault{}, false
	}
	f.seen++
	return histories.Fault{Kind: f.armed.kind}, f.armed.nth <= f.seen && f.seen <= f.armed.last()
}

func (f *faults) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Caller.Call(action, func() trace.Outcome {
		if one, ok := f.due(action); ok {
			return one.Apply(action, effect)
		}
		return effect()
	})
}
