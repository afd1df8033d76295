package admit

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// An Admitter admits requests that write, after the server's own admission plugins. Package fake/admission has the one
// of webhooks and policies. It must be safe for concurrent use. Its errors are the answers to the requests.
//
// Upstream: k8s.io/apiserver/pkg/admission MutationInterface, ValidationInterface.
type Admitter interface {
	// Admits reports whether any request would be changed or refused. It is called for each write.
	Admits() bool
	// Mutate may replace the object of a request. It is called after the plugins that change objects, before validation,
	// and once more if it has replaced the object.
	Mutate(ctx context.Context, r *Request) error
	// Validate is called after validation, for each attempt of a write.
	Validate(ctx context.Context, r *Request) error
	// ValidateConfiguration returns the errors in the expressions of an object of admissionregistration.k8s.io that
	// will be stored. old is nil for a creation.
	ValidateConfiguration(obj, old runtime.Object) field.ErrorList
}

// An Request is a request as an Admitter sees it.
//
// Upstream: k8s.io/apiserver/pkg/admission Attributes.
type Request struct {
	Operation   admissionv1.Operation
	Kind        schema.GroupVersionKind // of the objects
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string // "": the resource is not namespaced
	Name        string // "": the server makes the name, or deletes a collection
	// Object is what will be stored, of Kind; nil for a deletion. It is read-only: see Replace.
	Object runtime.Object
	// OldObject is what is stored, of Kind; nil for a creation. It is read-only.
	OldObject runtime.Object
	Options   runtime.Object // such as *metav1.CreateOptions
	DryRun    bool
	User      authenticationv1.UserInfo
	// Versions are the other versions in which the resource is served.
	Versions []Version
	// Again says that this is the second call of Mutate, because the first one has replaced the object and the server's
	// own plugins have seen the new one. State is what the first call has left there.
	Again bool
	State any

	// Set replaces the object of the request; see Replace.
	Set func(obj runtime.Object) error
	// Caller is that of the client.
	Caller sim.Caller
	// Warnings are for the client.
	Warnings []string
}

// An Version is a version in which a resource is served.
type Version struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Convert returns an object of the request in this version, and Restore an object of this version in the
	// request's. Both leave the object as it is.
	Convert, Restore func(obj runtime.Object) (runtime.Object, error)
}

// Replace replaces the object of a request, within Mutate. The server sets its defaults.
func (r *Request) Replace(obj runtime.Object) error {
	return r.Set(obj)
}

// Warn adds a warning to the answer.
func (r *Request) Warn(text string) { r.Warnings = append(r.Warnings, text) }

// Call makes a call to a program outside of the server: in a stepped world a suspension point, at which the host may
// inject a fault. The trace shows it as webhook NAME.
func (r *Request) Call(ctx context.Context, name string, call func() error) error {
	action := trace.Action{Kind: trace.KindAPI, Verb: "webhook", Object: name}
	return sim.CallContext(ctx, r.Caller, action, func(*sim.Commit) trace.Outcome {
		return trace.Outcome{Err: call()}
	}).Err
}

// Now returns the time of the world.
func (r *Request) Now() time.Time { return r.Caller.Now() }
