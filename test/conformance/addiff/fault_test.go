package addiff

import (
	"fmt"
	"sync"
	"time"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/histories"
)

// fault is a kind of request of the controller that goes wrong for a while. The zero fault is none.
type fault struct {
	kind    sim.FaultKind
	request string // verb and resource, such as "patch/status nodes"
}

// outage is how long requests go wrong.
const outage = 15 * time.Second

func (f fault) String() string { return fmt.Sprintf("%s: %s", f.kind, f.request) }

func (f fault) happen(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return histories.Fault{Kind: f.kind}.Apply(action, effect)
}

// faults is a Caller that lets go wrong what the armed fault says. It may be used concurrently.
type faults struct {
	sim.Caller
	mu     sync.Mutex
	armed  fault             // guarded by mu
	before map[string]func() // guarded by mu: what is done before the next request of that kind
	asked  map[string]int    // guarded by mu: how many requests of a kind there were
}

func newFaults() *faults { return &faults{before: map[string]func(){}, asked: map[string]int{}} }

func (f *faults) arm(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = one
}

// due returns the armed fault, if it is this request's.
func (f *faults) due(action trace.Action) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.armed, f.armed.kind != "" && f.armed.request == histories.RequestOf(action)
}

// meet notes a request and returns what is done before it.
func (f *faults) meet(request string) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[request]++
	before := f.before[request]
	delete(f.before, request)
	return before
}

func (f *faults) count(request string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[request]
}

func (f *faults) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if before := f.meet(histories.RequestOf(action)); before != nil {
		before()
	}
	return f.Caller.Call(action, func() trace.Outcome {
		if one, ok := f.due(action); ok {
			return one.happen(action, effect)
		}
		return effect()
	})
}

// before is something that is done just before the controller's next request of a kind, while nobody can have told it.
type before struct {
	request string
	act     act
}

func (b before) String() string { return fmt.Sprintf("just before the next %s: %s", b.request, b.act) }

func (b before) do(u *user) error {
	u.faults.mu.Lock()
	defer u.faults.mu.Unlock()
	u.faults.before[b.request] = func() {
		if err := b.act.do(u); err != nil {
			panic(err)
		}
	}
	return nil
}
