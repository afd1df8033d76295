package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/sim/trace"
)

// FaultKind is the way in which a call fails.
type FaultKind string

// The ways in which a call fails.
const (
	FaultConflict   FaultKind = "conflict"    // an update or patch is answered 409 Conflict, without effect
	FaultRefused    FaultKind = "refused"     // a request is answered 503 Service Unavailable, without effect
	FaultLost       FaultKind = "lost"        // a write takes effect, but is answered 504 Timeout
	FaultDriver     FaultKind = "driver"      // a driver call fails with a code, without effect
	FaultDriverLost FaultKind = "driver-lost" // a driver call takes effect, but fails with a code
	FaultHang       FaultKind = "hang"        // a driver call takes effect, but is not answered within HangTimeout
)

// FaultKinds lists all ways in which a call fails.
var FaultKinds = []FaultKind{FaultConflict, FaultRefused, FaultLost, FaultDriver, FaultDriverLost, FaultHang}

// hangTimeout is how long a caller waits for the driver in a FaultHang before it gives up with
// DeadlineExceeded.
//
// Upstream: pkg/volume/csi csiTimeout (v1.36).
const hangTimeout = 2 * time.Minute

// A Fault is one way in which one call fails. The zero Fault is none.
type Fault struct {
	Kind FaultKind
	Code codes.Code // of FaultDriver and FaultDriverLost
}

// String returns the text form: "conflict", "driver Unavailable".
func (f Fault) String() string {
	if f.hasCode() {
		return string(f.Kind) + " " + f.Code.String()
	}
	return string(f.Kind)
}

func (f Fault) hasCode() bool { return f.Kind == FaultDriver || f.Kind == FaultDriverLost }

// faultKindList returns the kinds of faults for a message.
func faultKindList() string {
	words := make([]string, len(FaultKinds))
	for i, kind := range FaultKinds {
		words[i] = string(kind)
		if (Fault{Kind: kind}).hasCode() {
			words[i] += " CODE"
		}
	}
	return strings.Join(words, ", ")
}

// ParseFault parses the text form that String returns. The error names the invalid part.
func ParseFault(s string) (Fault, error) {
	kind, code, _ := strings.Cut(s, " ")
	f := Fault{Kind: FaultKind(kind)}
	switch {
	case !slices.Contains(FaultKinds, f.Kind):
		return Fault{}, fmt.Errorf("fault %q: want one of %s", s, faultKindList())
	case !f.hasCode() && code != "":
		return Fault{}, fmt.Errorf("fault %q: %s takes no code", s, kind)
	case !f.hasCode():
		return f, nil
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == code {
			f.Code = c
			return f, nil
		}
	}
	return Fault{}, fmt.Errorf("fault %q: want a gRPC code, as in %q", s, kind+" Unavailable")
}

// Applies reports whether the fault can be injected into a call.
func (f Fault) Applies(to trace.Action) bool {
	switch f.Kind {
	case FaultConflict:
		return to.Kind == trace.KindAPI && (strings.HasPrefix(to.Verb, "update") || strings.HasPrefix(to.Verb, "patch"))
	case FaultRefused:
		return to.Kind == trace.KindAPI
	case FaultLost:
		return writes(to)
	case FaultDriver, FaultDriverLost, FaultHang:
		return to.Kind == trace.KindDriver
	default:
		return false
	}
}

// takesEffect reports whether the call takes effect before it fails.
func (f Fault) takesEffect() bool {
	return f.Kind == FaultLost || f.Kind == FaultDriverLost || f.Kind == FaultHang
}

// err returns the error that the task sees.
func (f Fault) err(action trace.Action) error {
	resource, name, _ := strings.Cut(action.Object, "/")
	switch f.Kind {
	case FaultConflict:
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case FaultRefused:
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	case FaultLost:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case FaultHang:
		return status.Error(codes.DeadlineExceeded, "the driver did not answer")
	default:
		return status.Errorf(f.Code, "%s: injected fault", action.Verb)
	}
}

// Apply returns the outcome of a call that fails with the fault, for calls outside a Stepped host: it
// calls run if the call takes effect. FaultHang is answered without delay.
func (f Fault) Apply(action trace.Action, run func() trace.Outcome) trace.Outcome {
	return f.apply(action, effect{run: run})
}

// apply makes a call fail.
func (f Fault) apply(action trace.Action, e effect) trace.Outcome {
	if !f.takesEffect() {
		return trace.Outcome{Err: f.err(action)}
	}
	out := e.do(nil)
	if out.Err == nil {
		out.Err, out.Lost = f.err(action), true
	}
	return out
}
