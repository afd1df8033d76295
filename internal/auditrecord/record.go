package auditrecord

import (
	"context"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Log records requests.
type Log interface {
	// Begin records that a request was received. A request that the log's policy omits has a record
	// that does nothing. The error is that the event cannot be written; then the request must be refused.
	Begin(r *http.Request, about Request) (Record, error)
}

// A Request is what the handler knows of a request before it answers it.
type Request struct {
	ID              string                     // of its events
	User            *authenticationv1.UserInfo // nil: not authenticated
	LongRunning     bool                       // the start of its response is an event of its own
	Unauthenticated bool                       // it is refused for that; only its response is recorded
	Now             func() time.Time           // the clock of its events
}

// A Record is the record of one request. Its methods are called by one goroutine.
type Record interface {
	// Impersonate sets the user whom the request impersonates.
	Impersonate(user *authenticationv1.UserInfo)
	// Authorize adds the decision about the request, and its reason.
	Authorize(allowed bool, reason string)
	// Enabled reports whether the other methods have an effect, so that their arguments need not be made in vain.
	Enabled() bool
	// RequestObject sets the object that was sent. It has its apiVersion and kind. of is the requested resource.
	RequestObject(obj runtime.Object, of schema.GroupVersionResource, subresource string)
	// RequestPatch sets the patch that was sent, JSON or YAML.
	RequestPatch(patch []byte)
	// ResponseObject sets the object of the response.
	ResponseObject(obj runtime.Object)
	// Respond records the code of the response, whose header is sent next.
	Respond(code int)
	// Complete records that the response was sent. It is the last call.
	Complete()
	// Panic records that the handler panicked with a value. It is the last call.
	Panic(value any)
}

// recordKey is the context key of a request's record.
type recordKey struct{}

// With returns a context with a record.
func With(ctx context.Context, r Record) context.Context {
	return context.WithValue(ctx, recordKey{}, r)
}

// From returns the record of a context, or one that does nothing.
func From(ctx context.Context) Record {
	if r, ok := ctx.Value(recordKey{}).(Record); ok {
		return r
	}
	return None{}
}

// None is the record of a request that is not recorded.
type None struct{}

var _ Record = None{}

// The methods of None do nothing.

func (None) Impersonate(*authenticationv1.UserInfo)                            {}
func (None) Authorize(bool, string)                                            {}
func (None) Enabled() bool                                                     { return false }
func (None) RequestObject(runtime.Object, schema.GroupVersionResource, string) {}
func (None) RequestPatch([]byte)                                               {}
func (None) ResponseObject(runtime.Object)                                     {}
func (None) Respond(int)                                                       {}
func (None) Complete()                                                         {}
func (None) Panic(any)                                                         {}
