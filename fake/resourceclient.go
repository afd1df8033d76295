package fake

import (
	"context"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A ResourceClient makes requests for one resource in one namespace, built-in or custom. All other
// clients use it. Arguments become the server's. Results are the stored objects, without copying:
// callers must not modify them. Objects have the resource's Go type, *CustomObject for custom
// resources. An object of a kind that shows another one (a Scale, an event of events.k8s.io) is
// created for each request.
type ResourceClient struct {
	c         *Clientset
	kind      *kind
	version   string
	namespace string
}

// A Result is the result of a write.
type Result struct {
	Object   Object   // the response
	Created  bool     // the object did not exist before
	Deleted  bool     // the object was removed
	Warnings []string // for the writer
}

// An ObjectList is the result of a list.
type ObjectList struct {
	metav1.ListMeta
	Objects  []Object
	Warnings []string // for the client that deletes a collection
}

// Resource returns the client of a resource. The bool is false if the server does not serve it in
// that version. namespace is "" for all namespaces, and for cluster-scoped resources.
func (c *Clientset) Resource(r schema.GroupVersionResource, namespace string) (ResourceClient, bool) {
	c.mustHaveServer()
	k, ok := c.server.catalog.Load().served[r]
	return ResourceClient{c: c, kind: k, version: r.Version, namespace: namespace}, ok
}

// Scale returns the client of the resource's /scale, which gets, updates and patches. The bool is
// false if there is none.
func (r ResourceClient) Scale() (ResourceClient, bool) {
	if r.kind.scale == nil {
		return ResourceClient{}, false
	}
	return ResourceClient{c: r.c, kind: r.kind.scale, version: r.kind.scale.gvk.Version, namespace: r.namespace}, true
}

// Describe returns the resource's description for discovery.
func (r ResourceClient) Describe() APIResource { return r.kind.describe(r.version) }

// GroupVersionKind returns the type of the resource's objects.
func (r ResourceClient) GroupVersionKind() schema.GroupVersionKind {
	return r.kind.gvk.GroupKind().WithVersion(r.version)
}

// New returns an empty object to decode into.
func (r ResourceClient) New() Object { return r.kind.empty() }

// Defaulted returns a copy of an object of this resource with defaults set, as a write sets them first.
// An error of the defaults of a custom resource is left to the write.
func (r ResourceClient) Defaulted(obj Object) Object {
	out := obj.DeepCopyObject().(Object)
	if c, ok := out.(*CustomObject); ok {
		if r.kind.custom != nil {
			_ = r.kind.defaultCustom(c)
		}
		return out
	}
	if r.kind.base == nil {
		r.kind.defaults(out)
	}
	return out
}

// ListOf returns the resource's list of the objects. It shares their contents.
func (r ResourceClient) ListOf(all ObjectList) runtime.Object {
	return r.kind.share(all.ListMeta, all.Objects)
}

// DeleteReturnsStatus reports whether an immediate deletion is answered with a Status. Otherwise it
// is answered with the object.
func (r ResourceClient) DeleteReturnsStatus() bool { return r.kind.deleteReturnsStatus }

func (r ResourceClient) storedKind() *kind {
	if r.kind.base != nil {
		return r.kind.base
	}
	return r.kind
}

// fromStored returns a stored object in the form of this resource.
func (r ResourceClient) fromStored(obj Object) (Object, error) {
	if obj == nil || r.kind.fromStored == nil {
		return obj, nil
	}
	return r.kind.fromStored(obj)
}

// fromStoredForWrite is fromStored, with the managed fields that a write continues.
func (r ResourceClient) fromStoredForWrite(stored Object) (Object, error) {
	obj, err := r.fromStored(stored)
	if obj != nil && r.kind.ofScale() {
		if fields, err := r.kind.scaleHandler(stored).ToSubresource(); err == nil {
			obj.SetManagedFields(fields)
		}
	}
	return obj, err
}

// toStored returns an object of this resource in its stored form.
func (r ResourceClient) toStored(obj, old Object) (Object, error) {
	if c, ok := obj.(*CustomObject); ok {
		c.APIVersion, c.Kind = r.GroupVersionKind().ToAPIVersionAndKind()
	}
	if r.kind.toStored == nil {
		return obj, nil
	}
	return r.kind.toStored(obj, old)
}

func (r ResourceClient) traceRequest(verb, object string, subresources ...string) request {
	return request{verb: traceVerb(verb, subresources), object: traceName(r.kind, r.namespace, object)}
}

// traceVerb returns a verb with its subresources. Those of the status are constants.
func traceVerb(verb string, subresources []string) string {
	switch {
	case len(subresources) == 0:
		return verb
	case len(subresources) > 1 || subresources[0] != "status":
		return verb + "/" + strings.Join(subresources, "/")
	case verb == "update":
		return "update/status"
	case verb == "patch":
		return "patch/status"
	}
	return verb + "/status"
}

// write makes a request that writes.
func (r ResourceClient) write(ctx context.Context, request request,
	effect func(w writer) (writeResult, error),
) (Result, error) {
	done, err := r.c.write(ctx, request, effect)
	if err != nil {
		return Result{}, err
	}
	if r.c.cached != nil {
		r.c.cached.wrote(r.c.server.tableOf(r.storedKind()), done)
	}
	obj, err := r.fromStored(done.object)
	return Result{Object: obj, Created: done.created, Deleted: done.deleted, Warnings: done.warnings}, err
}

// Create creates an object.
func (r ResourceClient) Create(ctx context.Context, obj Object, opts metav1.CreateOptions) (Result, error) {
	if r.c.interceptor != nil {
		request := r.interceptedRequest("create", "", opts)
		request.Body = obj
		return r.intercept(request, func(r ResourceClient) (Result, error) {
			return r.Create(ctx, obj.DeepCopyObject().(Object), opts)
		})
	}
	shown := obj.GetName()
	if shown == "" && obj.GetGenerateName() != "" {
		shown = obj.GetGenerateName() + "*"
	}
	return r.write(ctx, r.traceRequest("create", shown), func(w writer) (writeResult, error) {
		if err := r.authorize("create", ""); err != nil {
			return writeResult{}, err
		}
		if err := checkCreateOptions(opts); err != nil {
			return writeResult{}, err
		}
		warnings := dedupOwners(metaOf(obj), duplicateOwnersMsg)
		r.track(obj, nil, mainResource, opts.FieldManager)
		obj, err := r.toStored(obj, nil)
		if err != nil {
			return writeResult{}, err
		}
		if r.c.server.admits() {
			copied := opts // so that opts does not escape
			w.admission = r.admission(ctx, admissionv1.Create, obj.GetName(), &copied)
		}
		done, err := w.create(r.storedKind(), r.namespace, obj, len(opts.DryRun) > 0)
		done.warnings = slices.Concat(warnings, w.admission.warnings(), done.warnings)
		return done, err
	})
}

// Update replaces an object except its status, or updates a subresource. name is the name in the
// request, which the object must have.
func (r ResourceClient) Update(ctx context.Context, name string, obj Object, opts metav1.UpdateOptions,
	sub ...string,
) (Result, error) {
	if r.c.interceptor != nil {
		request := r.interceptedRequest("update", name, opts, sub...)
		sent := obj.DeepCopyObject().(Object)
		request.Body = sent
		return r.intercept(request, func(r ResourceClient) (Result, error) {
			return r.Update(ctx, name, sent, opts, sub...)
		})
	}
	return r.write(ctx, r.traceRequest("update", name, sub...), func(w writer) (writeResult, error) {
		if err := r.authorize("update", name, sub...); err != nil {
			return writeResult{}, err
		}
		c, err := r.changeThrough(name, sub)
		if err != nil {
			return writeResult{}, err
		}
		if err := checkUpdateOptions(opts); err != nil {
			return writeResult{}, err
		}
		if err := r.checkName(obj, name); err != nil {
			return writeResult{}, err
		}
		c.name, c.dryRun, c.replace = name, len(opts.DryRun) > 0, true
		if r.c.server.admits() {
			copied := opts
			w.admission = r.admission(ctx, admissionv1.Update, name, &copied, sub...)
		}
		admitted := w.admission != nil
		u := updateRequest{
			r: r, obj: obj, through: c.subresource, via: r.managedSubresource(c), manager: opts.FieldManager, admitted: admitted,
		}
		c.applier = &u
		done, err := w.update(r.storedKind(), c)
		done.warnings = slices.Concat(u.warnings, w.admission.warnings(), done.warnings)
		return done, err
	})
}

// draft copies the part of obj that may replace old: all but the status or, for a write of /status,
// the status and the metadata. With managed fields it copies everything, as they depend on what was
// sent, and so do NodeRestriction and, with admitted, what admits the request.
func (r ResourceClient) draft(obj, old Object, through subresource, admitted bool) Object {
	k := r.kind
	switch {
	case old == nil || k.copyStatus == nil || k.custom != nil || admitted || r.c.restrictsNodes() ||
		len(obj.GetManagedFields())+len(old.GetManagedFields()) > 0:
		return k.copy(obj)
	case k.draft != nil && (through == statusSubresource || through == mainResource):
		return k.draft(obj, old, through == statusSubresource)
	case through == statusSubresource:
		return k.copy(k.statusOnly(obj))
	case through == mainResource:
		bare := k.shallow(obj)
		k.copyStatus(bare, k.empty())
		return k.copy(bare)
	}
	return k.copy(obj)
}

// Patch patches an object or a subresource. Server-side apply creates an object that does not
// exist.
func (r ResourceClient) Patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, sub ...string,
) (Result, error) {
	if r.c.interceptor != nil {
		request := r.interceptedRequest("patch", name, opts, sub...)
		request.PatchType, request.Patch = pt, data
		return r.intercept(request, func(r ResourceClient) (Result, error) {
			return r.Patch(ctx, name, pt, data, opts, sub...)
		})
	}
	return r.write(ctx, r.traceRequest("patch", name, sub...), func(w writer) (writeResult, error) {
		if err := r.authorize("patch", name, sub...); err != nil {
			return writeResult{}, err
		}
		c, err := r.changeThrough(name, sub)
		if err != nil {
			return writeResult{}, err
		}
		p := patchRequest{r: r, name: name, pt: pt, data: data, opts: opts, sub: r.managedSubresource(c)}
		if err := p.check(); err != nil {
			return writeResult{}, err
		}
		c.name, c.dryRun, c.applier = name, len(opts.DryRun) > 0, &p
		c.create = pt == types.ApplyYAMLPatchType && p.sub == mainResource
		if c.create && r.c.server.access != nil && r.c.server.lookup(r.c.server.tableOf(r.storedKind()), key(r.namespace, name)) == nil {
			if err := r.authorize("create", name); err != nil {
				return writeResult{}, err
			}
		}
		if r.c.server.admits() {
			w.admission = r.admission(ctx, admissionv1.Update, name, patchedBy(opts), sub...)
		}
		done, err := w.update(r.storedKind(), c)
		done.warnings = slices.Concat(p.warnings, w.admission.warnings(), done.warnings)
		return done, err
	})
}

// managedSubresource returns the subresource in managed fields.
func (r ResourceClient) managedSubresource(c change) subresource {
	if r.kind.ofScale() {
		return scaleSubresource
	}
	return c.subresource
}

// changeThrough returns a change through a subresource, if the resource has it.
func (r ResourceClient) changeThrough(name string, sub []string) (change, error) {
	c := change{namespace: r.namespace}
	if len(sub) == 0 {
		return c, nil
	}
	c.subresource = subresource(strings.Join(sub, "/"))
	switch {
	case c.subresource == statusSubresource && r.kind.copyStatus != nil,
		c.subresource == finalizeSubresource && r.kind.id == "namespaces",
		c.subresource == ephemeralSubresource && r.kind.id == "pods":
		return c, nil
	case r.kind.custom != nil:
		return c, apierrors.NewNotFound(r.kind.groupResource(), name)
	}
	return c, notFound()
}

// Get reads an object.
func (r ResourceClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (Object, error) {
	if r.c.interceptor != nil {
		done, err := r.intercept(r.interceptedRequest("get", name, opts), func(r ResourceClient) (Result, error) {
			obj, err := r.Get(ctx, name, opts)
			return Result{Object: obj}, err
		})
		return done.Object, err
	}
	if v, err := r.cache(); v != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return r.getCached(ctx, v, name)
	}
	var obj Object
	err := r.c.call(ctx, r.traceRequest("get", name), func(writer) trace.Outcome {
		if err := r.authorize("get", name); err != nil {
			return trace.Outcome{Err: err}
		}
		stored, err := r.c.server.get(r.storedKind(), r.namespace, name, opts)
		if err == nil {
			obj, err = r.fromStored(stored)
		}
		if err != nil {
			return trace.Outcome{Err: err}
		}
		return trace.Outcome{Detail: detailOfVersion(stored.GetResourceVersion())}
	})
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// List returns the selected objects at one revision.
func (r ResourceClient) List(ctx context.Context, opts metav1.ListOptions) (ObjectList, error) {
	if r.c.interceptor != nil {
		request := r.interceptedRequest("list", "", opts)
		request.ListOptions = opts
		return r.interceptList(request, func(r ResourceClient) (ObjectList, error) { return r.List(ctx, opts) })
	}
	if v, err := r.cache(); v != nil || err != nil {
		if err != nil {
			return ObjectList{}, err
		}
		return r.listCached(ctx, v, opts)
	}
	var all ObjectList
	err := r.c.call(ctx, r.traceRequest("list", ""), func(writer) trace.Outcome {
		err := r.authorizeSeveral("list", opts.FieldSelector)
		if err != nil {
			return trace.Outcome{Err: err}
		}
		if all, err = r.c.server.list(r.kind, r.namespace, &opts); err != nil {
			return trace.Outcome{Err: err}
		}
		return trace.Outcome{Detail: strconv.Itoa(len(all.Objects)) + " items rv=" + all.ResourceVersion}
	})
	return all, err
}

// Watch starts a watch of the selected objects. 410 Expired, and 504 Timeout for initial events of
// the future, are sent on the wire as the watch's only event.
func (r ResourceClient) Watch(ctx context.Context, opts metav1.ListOptions) (*Cursor, error) {
	var c *Cursor
	err := r.c.call(ctx, r.traceRequest("watch", ""), func(writer) trace.Outcome {
		err := r.authorizeSeveral("watch", opts.FieldSelector)
		if err != nil {
			return trace.Outcome{Err: err}
		}
		c, err = r.c.server.newCursor(r.kind, r.namespace, &opts)
		if c != nil {
			c.gate, _ = r.c.caller.(sim.ContextCaller)
		}
		out := trace.Outcome{Err: err}
		if opts.ResourceVersion != "" {
			out.Detail = "rv=" + opts.ResourceVersion
		}
		return out
	})
	return c, err
}

// CreateSubresource executes an action on an object: a Binding or an Eviction of a pod, a
// TokenRequest of a service account. body has the subresource's Go type.
func (r ResourceClient) CreateSubresource(ctx context.Context, name, sub string, body runtime.Object,
	opts metav1.CreateOptions,
) (runtime.Object, error) {
	if by := r.c.interceptor; by != nil {
		request := r.interceptedRequest("create", name, opts, sub)
		body = body.DeepCopyObject()
		request.Body = body
		return by.Intercept(request, func() (runtime.Object, error) {
			return r.withoutInterceptor().CreateSubresource(ctx, name, sub, body, opts)
		})
	}
	a, ok := r.kind.actions[sub]
	if !ok {
		return nil, notFound()
	}
	var answer runtime.Object
	_, err := r.c.write(ctx, r.traceRequest("create", name, sub), func(w writer) (writeResult, error) {
		if err := r.authorize("create", name, sub); err != nil {
			return writeResult{}, err
		}
		if err := w.restrictNode(nodeWrite{
			k: r.kind, op: admissionv1.Create, sub: sub, namespace: r.namespace, name: name, obj: body,
		}); err != nil {
			return writeResult{}, err
		}
		admitted := r.admissionOf(ctx, name, sub, opts)
		body, err := admitted.action(body)
		if err != nil {
			return writeResult{}, err
		}
		done, err := a.run(w, r.namespace, name, body, len(opts.DryRun) > 0)
		answer, done.warnings = done.answer, append(admitted.warnings(), done.warnings...)
		return done.writeResult, err
	})
	return answer, err
}
