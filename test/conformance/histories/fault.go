package histories

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A Fault is a kind of request that fails for a while. The zero Fault is none.
type Fault struct {
	Kind    sim.FaultKind // conflict, lost, or refused
	Request string        // verb and resource, such as "patch/status nodes"
}

// String returns the fault in words.
func (f Fault) String() string { return fmt.Sprintf("%s: %s", f.Kind, f.Request) }

// RequestOf returns the kind of a request as in Fault.Request, or "" for other actions.
func RequestOf(action trace.Action) string {
	resource, _, _ := strings.Cut(action.Object, "/")
	if action.Kind != trace.KindAPI {
		return ""
	}
	return action.Verb + " " + resource
}

// Apply makes the request with the effect of the fault.
func (f Fault) Apply(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	resource, name, _ := strings.Cut(action.Object, "/")
	switch f.Kind {
	case sim.FaultConflict:
		return trace.Outcome{Err: apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New("changed"))}
	case sim.FaultLost:
		out := effect()
		if out.Err == nil {
			out.Err, out.Lost = apierrors.NewTimeoutError("no answer came", 0), true
		}
		return out
	default:
		return trace.Outcome{Err: apierrors.NewServiceUnavailable("the server is tired")}
	}
}

// A Faults is a Caller that injects the armed fault. It may be used concurrently.
type Faults struct {
	sim.Caller

	mu    sync.Mutex
	armed Fault // guarded by mu
}

// Arm replaces the armed fault.
func (f *Faults) Arm(one Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = one
}

// Call makes the request, or injects the fault.
func (f *Faults) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	f.mu.Lock()
	one := f.armed
	f.mu.Unlock()
	return f.Caller.Call(action, func() trace.Outcome {
		if one.Kind != "" && one.Request == RequestOf(action) {
			return one.Apply(action, effect)
		}
		return effect()
	})
}
