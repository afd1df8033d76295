package addiff

import (
	"fmt"
	"sync"

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A faults injects faults, counts requests and runs acts just before requests. It may be used
// concurrently.
type faults struct {
	histories.Faults

	mu     sync.Mutex
	before map[string]func() // guarded by mu: runs before the next request of a kind
	counts map[string]int    // guarded by mu: requests of a kind
}

func newFaults() *faults { return &faults{before: map[string]func(){}, counts: map[string]int{}} }

func (f *faults) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if before := f.observe(histories.RequestOf(action)); before != nil {
		before()
	}
	return f.Faults.Call(action, effect)
}

// observe counts a request and returns what runs before it.
func (f *faults) observe(request string) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[request]++
	before := f.before[request]
	delete(f.before, request)
	return before
}

func (f *faults) count(request string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[request]
}

// beforeRequest performs an act just before the controller's next request of a kind, so that no
// cache has seen it.
type beforeRequest struct {
	request string
	act     act
}

func (b beforeRequest) String() string {
	return fmt.Sprintf("just before the next %s: %s", b.request, b.act)
}

func (b beforeRequest) do(w *world) error {
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	w.faults.before[b.request] = func() {
		if err := b.act.do(w); err != nil {
			panic(err)
		}
	}
	return nil
}
