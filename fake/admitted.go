package fake

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/admit"
)

// An admission is how one request is admitted by the server's Admitter. nil: nothing admits it.
//
// Differs: reviews, such as TokenReview, are admitted as they are, and so are requests to the kubelets of nodes. The real
// server sends them to webhooks that ask for them.
type admission struct {
	ctx     context.Context //nolint:containedctx // it is the request's
	r       ResourceClient
	request admit.Request  // its objects are those of the call of the Admitter
	obj     Object         // in the form of the write pipeline
	body    runtime.Object // of an action; nil: the request is about objects
	old     Object         // that obj replaces; nil for a creation
}

// admits reports whether the server's Admitter would change or refuse any request.
func (s *Server) admits() bool { return s.admitter != nil && s.admitter.Admits() }

// admission returns how a request is admitted, by a server that admits.
func (r ResourceClient) admission(
	ctx context.Context, operation admissionv1.Operation, name string, options runtime.Object, sub ...string,
) *admission {
	shape := r.interceptedRequest("", name, nil, sub...)
	a := &admission{ctx: ctx, r: r, request: admit.Request{
		Operation: operation, Kind: shape.Kind, Resource: shape.Resource, Subresource: shape.Subresource,
		Namespace: r.namespace, Name: name, Options: options, User: r.c.User(),
	}}
	a.request.Caller, a.request.Set = r.c.caller, a.replace
	if shape.Resource.Group == "" && shape.Resource.Resource == "namespaces" {
		a.request.Namespace = name
	}
	a.setOptions(options)
	a.request.Versions = r.otherVersions(a.request.Subresource)
	return a
}

func (a *admission) by() admit.Admitter { return a.r.c.server.admitter }

// admissionOf returns how the creation of an action's body is admitted.
func (r ResourceClient) admissionOf(ctx context.Context, name, sub string, opts metav1.CreateOptions) *admission {
	if !r.c.server.admits() {
		return nil
	}
	a := r.admission(ctx, admissionv1.Create, name, &opts, sub)
	a.request.Kind = r.kind.actions[sub].gvk
	a.request.Versions = nil
	return a
}

// setOptions sets the options of a request, with their type.
func (a *admission) setOptions(options runtime.Object) {
	kind := ""
	switch o := options.(type) {
	case *metav1.CreateOptions:
		kind, a.request.DryRun = "CreateOptions", len(o.DryRun) > 0
	case *metav1.UpdateOptions:
		kind, a.request.DryRun = "UpdateOptions", len(o.DryRun) > 0
	case *metav1.DeleteOptions:
		kind, a.request.DryRun = "DeleteOptions", len(o.DryRun) > 0
	}
	options.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
	a.request.Options = options
}

// patchedBy returns the options of an update that a patch is.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers patchToUpdateOptions.
func patchedBy(o metav1.PatchOptions) *metav1.UpdateOptions {
	return &metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// as makes the request a creation or an update: an update may create an object that does not exist, or that was deleted
// meanwhile.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers updateToCreateOptions.
func (a *admission) as(operation admissionv1.Operation) {
	if a == nil || a.request.Operation == operation {
		return
	}
	a.request.Operation = operation
	switch o := a.request.Options.(type) {
	case *metav1.UpdateOptions:
		a.setOptions(&metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
	case *metav1.CreateOptions:
		a.setOptions(&metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
	}
}

// mutate returns what the Admitter makes of an object that will replace old; old is nil for a creation. again has the
// server's own plugins, which see what the Admitter has made.
//
// Upstream: k8s.io/apiserver/pkg/admission reinvoker.
func (a *admission) mutate(obj, old Object, again func(Object) error) (Object, error) {
	if a == nil {
		return obj, nil
	}
	a.obj, a.old = obj, old
	a.request.Again, a.request.State = false, nil
	for {
		if err := a.with(a.obj, old); err != nil {
			return nil, err
		}
		if err := a.by().Mutate(a.ctx, &a.request); err != nil {
			return nil, err
		}
		if a.obj == obj || a.request.Again {
			return a.obj, nil
		}
		if err := again(a.obj); err != nil {
			return nil, err
		}
		a.request.Again = true
	}
}

// replace replaces the object of the request.
func (a *admission) replace(obj runtime.Object) error {
	if a.body != nil {
		a.body, a.request.Object = obj, obj
		return nil
	}
	shown := obj.(Object)
	stored, err := a.r.toStored(a.r.kind.shallow(shown), a.old)
	if err != nil {
		return err
	}
	clean(stored)
	a.r.storedKind().defaults(stored)
	a.obj = stored
	return a.with(stored, a.old)
}

// validate asks the Admitter about an object that will replace old; old is nil for a creation.
func (a *admission) validate(obj, old Object) error {
	if a == nil {
		return nil
	}
	if err := a.with(obj, old); err != nil {
		return err
	}
	name := a.request.Name
	if name == "" && obj != nil {
		a.request.Name = obj.GetName()
	}
	err := a.by().Validate(a.ctx, &a.request)
	a.request.Name = name
	return err
}

// delete asks the Admitter about the deletion of an object.
//
// Upstream: k8s.io/apiserver/pkg/registry/rest AdmissionToValidateObjectDeleteFunc.
func (a *admission) delete(old Object) error {
	if a == nil {
		return nil
	}
	if err := a.with(nil, old); err != nil {
		return err
	}
	if err := a.by().Mutate(a.ctx, &a.request); err != nil {
		return err
	}
	return a.by().Validate(a.ctx, &a.request)
}

// action returns what the Admitter makes of the body of an action.
func (a *admission) action(body runtime.Object) (runtime.Object, error) {
	if a == nil {
		return body, nil
	}
	a.body = body.DeepCopyObject()
	a.body.GetObjectKind().SetGroupVersionKind(a.request.Kind)
	a.request.Object = a.body
	if err := a.by().Mutate(a.ctx, &a.request); err != nil {
		return nil, err
	}
	return a.body, a.by().Validate(a.ctx, &a.request)
}

// with sets the objects of the request.
func (a *admission) with(obj, old Object) (err error) {
	a.request.Object, a.request.OldObject = nil, nil
	if obj != nil {
		if a.request.Object, err = a.shown(obj); err != nil {
			return err
		}
	}
	if old != nil {
		a.request.OldObject, err = a.shown(old)
	}
	return err
}

// shown returns an object of the write pipeline as the client sees it, with its type.
func (a *admission) shown(obj Object) (Object, error) {
	if a.r.kind.base != nil {
		var err error
		if obj, err = a.r.kind.fromStored(obj); err != nil {
			return nil, err
		}
	}
	return a.r.versioned(obj), nil
}

// warnings returns the warnings of the Admitter, each once.
func (a *admission) warnings() []string {
	if a == nil {
		return nil
	}
	var out []string
	for _, text := range a.request.Warnings {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// otherVersions returns the other versions in which a resource is served with a subresource, the preferred one first.
// There are none for a scale.
func (r ResourceClient) otherVersions(sub string) []admit.Version {
	if r.kind.ofScale() {
		return nil
	}
	var out []admit.Version
	for _, k := range r.c.server.catalog.Load().versions[r.storedKind().id] {
		if k.gvk == r.GroupVersionKind() || sub == string(statusSubresource) && k.copyStatus == nil {
			continue
		}
		other := ResourceClient{c: r.c, kind: k, version: k.gvk.Version, namespace: r.namespace}
		out = append(out, admit.Version{
			Resource: k.gvk.GroupVersion().WithResource(k.resource), Kind: k.gvk,
			Convert: func(obj runtime.Object) (runtime.Object, error) { return r.convert(obj, other) },
			Restore: func(obj runtime.Object) (runtime.Object, error) { return other.convert(obj, r) },
		})
	}
	return out
}

// convert returns an object of a resource in another version. The result is a copy.
func (r ResourceClient) convert(obj runtime.Object, to ResourceClient) (runtime.Object, error) {
	out := obj.DeepCopyObject().(Object)
	var err error
	switch {
	case r.kind.toStorage != nil:
		out, err = r.kind.toStorage(out)
	case r.kind.base != nil:
		out, err = r.kind.toStored(out, nil)
	}
	if err == nil {
		out, err = to.fromStored(out)
	}
	if err != nil {
		return nil, err
	}
	return to.versioned(out), nil
}
