package fake

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// An Admitter admits requests that write, with the server's own admission plugins. Package fake/admission has the one of
// webhooks and policies. It must be safe for concurrent use. Its errors are the answers to the requests.
//
// Upstream: k8s.io/apiserver/pkg/admission MutationInterface, ValidationInterface.
type Admitter interface {
	// Admits reports whether any request would be changed or refused. It is called for each write.
	Admits() bool
	// Mutate may replace r.Object. It is called after the plugins that change objects, before validation.
	Mutate(ctx context.Context, r *AdmissionRequest) error
	// Validate is called after validation, for each attempt of a write.
	Validate(ctx context.Context, r *AdmissionRequest) error
	// ValidateConfiguration returns the errors in the expressions of an object of admissionregistration.k8s.io that is
	// to be stored. old is nil for a creation.
	ValidateConfiguration(obj, old Object) field.ErrorList
}

// An AdmissionRequest is a request as an Admitter sees it.
//
// Upstream: k8s.io/apiserver/pkg/admission Attributes.
type AdmissionRequest struct {
	Operation   admissionv1.Operation
	Kind        schema.GroupVersionKind // of the objects
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string // "": the resource is not namespaced
	Name        string // "": the server makes the name, or deletes a collection
	// Object is what is to be stored, of Kind; nil for a deletion. It is read-only: see Replace.
	Object runtime.Object
	// OldObject is what is stored, of Kind; nil for a creation. It is read-only.
	OldObject runtime.Object
	Options   runtime.Object // such as *metav1.CreateOptions
	DryRun    bool
	User      authenticationv1.UserInfo

	// Versions are the other versions in which the resource is served.
	Versions []AdmissionVersion
	// Again says that this is the second call of Mutate, because the first one has replaced the object and the server's
	// own plugins have seen the new one. State is what the first call has left there.
	Again bool
	State any

	warnings []string
	caller   sim.Caller
}

// An AdmissionVersion is a version in which a resource is served.
type AdmissionVersion struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Convert returns an object of the request in this version, and Restore an object of this version in the
	// request's.
	Convert, Restore func(obj runtime.Object) (runtime.Object, error)
}

// Replace replaces the object of a request, within Mutate. The server sets its defaults.
func (r *AdmissionRequest) Replace(obj runtime.Object) error {
	r.Object = obj
	return nil
}

// Warn adds a warning to the answer.
func (r *AdmissionRequest) Warn(text string) { r.warnings = append(r.warnings, text) }

// Call makes a call to a program outside of the server, with its name for the trace: in a stepped world a suspension
// point, at which the host may inject a fault.
func (r *AdmissionRequest) Call(ctx context.Context, name string, call func() error) error {
	action := trace.Action{Kind: trace.KindAPI, Verb: "webhook", Object: name}
	return sim.CallContext(ctx, r.caller, action, func(*sim.Commit) trace.Outcome {
		return trace.Outcome{Err: call()}
	}).Err
}

// SetAdmitter sets what admits requests, before the server is used. nil: nothing.
func (s *Server) SetAdmitter(by Admitter) { s.admitter = by }

// Admitter returns what SetAdmitter set.
func (s *Server) Admitter() Admitter { return s.admitter }
