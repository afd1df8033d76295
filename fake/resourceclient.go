package fake

import (
	"context"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// ResourceClient makes requests about one resource in one namespace, whatever the resource: the way in that all others
// lead to. What it is given becomes the server's; what it returns is the stored object, shared with everybody: read-only.
// Objects are of the resource's Go type, and of *Custom for custom resources. An object of a resource that shows another
// one (a Scale, an event of events.k8s.io) is made for each request.
type ResourceClient struct {
	c         *Clientset
	kind      *kind
	version   string
	namespace string
}

// Result is what a write came to.
type Result struct {
	Object   Object   // to answer with
	Created  bool     // there was no such object before
	Deleted  bool     // the object was removed
	Warnings []string // for whoever wrote
}

// ObjectList is what a list found.
type ObjectList struct {
	metav1.ListMeta
	Objects []Object
}

// Resource returns the client of a resource, and whether the server has it in that version. namespace is "" for all
// namespaces, and for what has none.
func (c *Clientset) Resource(r schema.GroupVersionResource, namespace string) (ResourceClient, bool) {
	k, ok := c.server.catalog.Load().served[r]
	return ResourceClient{c: c, kind: k, version: r.Version, namespace: namespace}, ok
}

// Scale returns the client of the resource's /scale, and whether it has one. It gets, updates and patches.
func (r ResourceClient) Scale() (ResourceClient, bool) {
	if r.kind.scale == nil {
		return ResourceClient{}, false
	}
	return ResourceClient{c: r.c, kind: r.kind.scale, version: r.kind.scale.gvk.Version, namespace: r.namespace}, true
}

// Describe tells what the resource is.
func (r ResourceClient) Describe() APIResource { return r.kind.describe(r.version) }

// GroupVersionKind is that of the resource's objects.
func (r ResourceClient) GroupVersionKind() schema.GroupVersionKind {
	return r.kind.gvk.GroupKind().WithVersion(r.version)
}

// New returns an empty object to decode into.
func (r ResourceClient) New() Object { return r.kind.empty() }

// ListOf makes the resource's list of objects, which it shares.
func (r ResourceClient) ListOf(all ObjectList) runtime.Object {
	return r.kind.share(all.ListMeta, all.Objects)
}

// DeleteReturnsStatus tells whether a deletion that removes an object at once is answered with a Status, not with the object.
func (r ResourceClient) DeleteReturnsStatus() bool { return r.kind.deleteReturnsStatus }

func (r ResourceClient) storedKind() *kind {
	if r.kind.base != nil {
		return r.kind.base
	}
	return r.kind
}

// fromStored gives an object in the form of this resource.
func (r ResourceClient) fromStored(obj Object) Object {
	if obj == nil || r.kind.fromStored == nil {
		return obj
	}
	return r.kind.fromStored(obj)
}

// fromStoredForWrite gives an object in the form of this resource, with the managed fields that a write of it continues.
func (r ResourceClient) fromStoredForWrite(stored Object) Object {
	obj := r.fromStored(stored)
	if obj != nil && r.kind.ofScale() {
		if fields, err := r.kind.scaleHandler(stored).ToSubresource(); err == nil {
			obj.SetManagedFields(fields)
		}
	}
	return obj
}

// toStored gives an object of this resource in the form in which it is stored.
func (r ResourceClient) toStored(obj, old Object) (Object, error) {
	if c, ok := obj.(*CustomObject); ok {
		c.APIVersion, c.Kind = r.GroupVersionKind().ToAPIVersionAndKind()
	}
	if r.kind.toStored == nil {
		return obj, nil
	}
	return r.kind.toStored(obj, old)
}

func (r ResourceClient) request(verb, object string, subresources ...string) request {
	if len(subresources) > 0 {
		verb += "/" + strings.Join(subresources, "/")
	}
	return request{verb: verb, object: name(r.kind, r.namespace, object)}
}

// write makes a request that writes.
func (r ResourceClient) write(ctx context.Context, what request, effect func() (written, error)) (Result, error) {
	done, err := r.c.write(ctx, what, effect)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Object: r.fromStored(done.object), Created: done.created, Deleted: done.gone, Warnings: done.warnings,
	}, nil
}

// Create creates an object.
func (r ResourceClient) Create(ctx context.Context, obj Object, opts metav1.CreateOptions) (Result, error) {
	if r.c.interceptor != nil {
		what := r.interceptedRequest("create", "", opts)
		what.Body = obj
		return r.intercept(what, func(r ResourceClient) (Result, error) { return r.Create(ctx, obj.DeepCopyObject().(Object), opts) })
	}
	shown := obj.GetName()
	if shown == "" && obj.GetGenerateName() != "" {
		shown = obj.GetGenerateName() + "*"
	}
	return r.write(ctx, r.request("create", shown), func() (written, error) {
		if err := checkCreateOptions(opts); err != nil {
			return written{}, err
		}
		warnings := dedupOwners(metaOf(obj), duplicateOwnersMsg)
		r.track(obj, nil, throughMain, opts.FieldManager)
		obj, err := r.toStored(obj, nil)
		if err != nil {
			return written{}, err
		}
		done, err := r.c.server.create(r.storedKind(), r.namespace, obj, len(opts.DryRun) > 0)
		done.warnings = append(warnings, done.warnings...)
		return done, err
	})
}

// Update replaces an object, its status excepted, or what the subresource is of. name is the request's, which the
// object's must be.
func (r ResourceClient) Update(ctx context.Context, name string, obj Object, opts metav1.UpdateOptions, sub ...string) (Result, error) {
	if r.c.interceptor != nil {
		what := r.interceptedRequest("update", name, opts, sub...)
		obj = obj.DeepCopyObject().(Object)
		what.Body = obj
		return r.intercept(what, func(r ResourceClient) (Result, error) { return r.Update(ctx, name, obj, opts, sub...) })
	}
	return r.write(ctx, r.request("update", name, sub...), func() (written, error) {
		how, err := r.changeThrough(name, sub)
		if err != nil {
			return written{}, err
		}
		if err := checkUpdateOptions(opts); err != nil {
			return written{}, err
		}
		if err := r.checkName(obj, name); err != nil {
			return written{}, err
		}
		how.name, how.dryRun, how.whole = name, len(opts.DryRun) > 0, true
		var warnings []string
		through, via, manager := how.through, r.managedSubresource(how), opts.FieldManager
		how.make = func(old Object) (Object, error) {
			obj := r.draft(obj, old, through)
			warnings = dedupOwners(metaOf(obj), duplicateOwnersMsg)
			r.track(obj, r.fromStoredForWrite(old), via, manager)
			return r.toStored(obj, old)
		}
		done, err := r.c.server.update(r.storedKind(), how)
		done.warnings = append(warnings, done.warnings...)
		return done, err
	})
}

// draft copies what of an object can come in old's place: all but the status, or, of a write of /status, that and the
// metadata. Where fields have managers all is copied, as the managers are told from what was sent.
func (r ResourceClient) draft(obj, old Object, through subresource) Object {
	k := r.kind
	switch {
	case old == nil || k.copyStatus == nil || k.custom != nil || len(obj.GetManagedFields())+len(old.GetManagedFields()) > 0:
		return k.copy(obj)
	case k.draft != nil && (through == throughStatus || through == throughMain):
		return k.draft(obj, old, through == throughStatus)
	case through == throughStatus:
		return k.copy(k.statusOnly(obj))
	case through == throughMain:
		bare := k.shallow(obj)
		k.copyStatus(bare, k.empty())
		return k.copy(bare)
	}
	return k.copy(obj)
}

// Patch changes an object, or what the subresource is of. Server-side apply, which is a patch, creates what is not there.
func (r ResourceClient) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (Result, error) {
	if r.c.interceptor != nil {
		what := r.interceptedRequest("patch", name, opts, sub...)
		what.PatchType, what.Patch = pt, data
		return r.intercept(what, func(r ResourceClient) (Result, error) { return r.Patch(ctx, name, pt, data, opts, sub...) })
	}
	return r.write(ctx, r.request("patch", name, sub...), func() (written, error) {
		how, err := r.changeThrough(name, sub)
		if err != nil {
			return written{}, err
		}
		p := patching{r: r, name: name, pt: pt, data: data, opts: opts, sub: r.managedSubresource(how)}
		if err := p.check(); err != nil {
			return written{}, err
		}
		how.name, how.dryRun, how.make = name, len(opts.DryRun) > 0, p.make
		how.create = pt == types.ApplyYAMLPatchType && p.sub == throughMain
		done, err := r.c.server.update(r.storedKind(), how)
		done.warnings = append(p.warnings, done.warnings...)
		return done, err
	})
}

// managedSubresource is the subresource that managed fields are written down for.
func (r ResourceClient) managedSubresource(c change) subresource {
	if r.kind.ofScale() {
		return throughScale
	}
	return c.through
}

// changeThrough begins a change through a subresource, if the resource has it.
func (r ResourceClient) changeThrough(name string, sub []string) (change, error) {
	c := change{namespace: r.namespace}
	if len(sub) == 0 {
		return c, nil
	}
	c.through = subresource(strings.Join(sub, "/"))
	switch {
	case c.through == throughStatus && r.kind.copyStatus != nil,
		c.through == throughFinalize && r.kind.id == "namespaces":
		return c, nil
	case r.kind.custom != nil:
		return c, apierrors.NewNotFound(r.kind.groupResource(), name)
	}
	return c, notFound()
}

// Delete deletes an object, or says that it is to go.
func (r ResourceClient) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) (Result, error) {
	if r.c.interceptor != nil {
		return r.intercept(r.interceptedRequest("delete", name, opts), func(r ResourceClient) (Result, error) { return r.Delete(ctx, name, opts) })
	}
	return r.write(ctx, r.request("delete", name), func() (written, error) {
		return r.c.server.remove(r.storedKind(), r.namespace, name, opts)
	})
}

// DeleteCollection deletes the objects that are selected, one after the other in order, and returns them as they were
// found.
func (r ResourceClient) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, sel metav1.ListOptions) (ObjectList, error) {
	if r.c.interceptor != nil {
		what := r.interceptedRequest("deletecollection", "", opts)
		what.ListOptions = sel
		return r.interceptList(what, func(r ResourceClient) (ObjectList, error) { return r.DeleteCollection(ctx, opts, sel) })
	}
	var all listed
	err := r.c.call(ctx, r.request("deletecollection", ""), func() trace.Outcome {
		err := validateDelete(&opts)
		if err == nil {
			all, err = r.c.server.list(r.kind, r.namespace, &sel)
		}
		if err != nil {
			return trace.Outcome{Err: err}
		}
		for _, obj := range all.objects {
			_, err := r.c.server.remove(r.storedKind(), obj.GetNamespace(), obj.GetName(), opts)
			if err != nil && !apierrors.IsNotFound(err) {
				return trace.Outcome{Err: err}
			}
		}
		return trace.Outcome{Detail: strconv.Itoa(len(all.objects)) + " items"}
	})
	return r.objectList(all), err
}

// objectList shows what a list found.
func (r ResourceClient) objectList(all listed) ObjectList {
	if r.kind.fromStored != nil {
		shown := make([]Object, len(all.objects))
		for i, obj := range all.objects {
			shown[i] = r.kind.fromStored(obj)
		}
		all.objects = shown
	}
	return ObjectList{ListMeta: all.meta, Objects: all.objects}
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
	var obj Object
	err := r.c.call(ctx, r.request("get", name), func() trace.Outcome {
		var err error
		if obj, err = r.c.server.get(r.storedKind(), r.namespace, name, opts); err != nil {
			return trace.Outcome{Err: err}
		}
		return trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()}
	})
	if err != nil {
		return nil, err
	}
	return r.fromStored(obj), nil
}

// List lists the objects that are selected, at one revision.
func (r ResourceClient) List(ctx context.Context, opts metav1.ListOptions) (ObjectList, error) {
	if r.c.interceptor != nil {
		what := r.interceptedRequest("list", "", opts)
		what.ListOptions = opts
		return r.interceptList(what, func(r ResourceClient) (ObjectList, error) { return r.List(ctx, opts) })
	}
	var all listed
	err := r.c.call(ctx, r.request("list", ""), func() trace.Outcome {
		var err error
		if all, err = r.c.server.list(r.kind, r.namespace, &opts); err != nil {
			return trace.Outcome{Err: err}
		}
		return trace.Outcome{Detail: strconv.Itoa(len(all.objects)) + " items rv=" + all.meta.ResourceVersion}
	})
	return r.objectList(all), err
}

// Watch begins to tell of the changes of the objects that are selected. An error that is 410 Expired, or 504
// Timeout for initial events of the future, is, on the wire, the watch's first and only event.
func (r ResourceClient) Watch(ctx context.Context, opts metav1.ListOptions) (*Cursor, error) {
	var c *Cursor
	err := r.c.call(ctx, r.request("watch", ""), func() trace.Outcome {
		var err error
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

// CreateSubresource creates a subresource that is nothing but something done to an object: a Binding or an Eviction of a pod, a
// TokenRequest of a service account. body is of the subresource's Go type.
func (r ResourceClient) CreateSubresource(ctx context.Context, name, sub string, body runtime.Object, opts metav1.CreateOptions) (runtime.Object, error) {
	if by := r.c.interceptor; by != nil {
		what := r.interceptedRequest("create", name, opts, sub)
		body = body.DeepCopyObject()
		what.Body = body
		return by.Intercept(what, func() (runtime.Object, error) {
			return r.withoutInterceptor().CreateSubresource(ctx, name, sub, body, opts)
		})
	}
	a, ok := r.kind.actions[sub]
	if !ok {
		return nil, notFound()
	}
	var answer runtime.Object
	_, err := r.c.write(ctx, r.request("create", name, sub), func() (written, error) {
		done, err := a.run(r.c.server, r.namespace, name, body, len(opts.DryRun) > 0)
		answer = done.answer
		return done.written, err
	})
	return answer, err
}
