package fake

import (
	"context"
	"errors"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/trace"
)

// What client-go refuses before it asks the server.
var (
	errNoName            = errors.New("resource name may not be empty")
	errNamespaceCreation = errors.New("an empty namespace may not be set during creation")
	errNamespaceName     = errors.New("an empty namespace may not be set when a resource name is provided")
)

// resource is the client of one resource in one namespace: T is its type, L its list's, A that of its configurations
// for server-side apply. Its methods are those of client-go's typed interfaces. Like theirs, they return an empty object
// with an error.
//
// Upstream: k8s.io/client-go/gentype.
type resource[T Object, L runtime.Object, A any] struct {
	c         *Clientset
	kind      *kind
	namespace string
}

func of[T Object, L runtime.Object, A any](c *Clientset, name, namespace string) resource[T, L, A] {
	return resource[T, L, A]{c: c, kind: c.server.tables[name].kind, namespace: namespace}
}

// answer copies what the server answers with for the caller.
func (r resource[T, L, A]) answer(obj Object, err error) (T, error) {
	if err != nil {
		return r.kind.empty().(T), err
	}
	return obj.DeepCopyObject().(T), nil
}

func (r resource[T, L, A]) request(verb, object string, subresources ...string) request {
	if len(subresources) > 0 {
		verb += "/" + strings.Join(subresources, "/")
	}
	return request{verb: verb, object: name(r.kind, r.namespace, object)}
}

// addressable tells whether a request for one object can be sent at all.
func (r resource[T, L, A]) addressable(name string) error {
	switch {
	case name == "":
		return errNoName
	case r.kind.namespaced && r.namespace == "":
		return errNamespaceName
	}
	return nil
}

// Create creates an object.
func (r resource[T, L, A]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	if r.kind.namespaced && r.namespace == "" {
		return r.answer(nil, errNamespaceCreation)
	}
	shown := obj.GetName()
	if shown == "" && obj.GetGenerateName() != "" {
		shown = obj.GetGenerateName() + "*"
	}
	return r.answer(r.c.write(ctx, r.request("create", shown), func() (written, error) {
		return r.c.server.create(r.kind, r.namespace, obj.DeepCopyObject().(Object), len(opts.DryRun) > 0)
	}))
}

// Update replaces an object, its status excepted.
func (r resource[T, L, A]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.update(ctx, obj, opts)
}

// UpdateStatus replaces an object's status.
func (r resource[T, L, A]) UpdateStatus(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.update(ctx, obj, opts, "status")
}

func (r resource[T, L, A]) update(ctx context.Context, obj T, opts metav1.UpdateOptions, sub ...string) (T, error) {
	name := obj.GetName()
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	return r.answer(r.c.write(ctx, r.request("update", name, sub...), func() (written, error) {
		how, err := r.through(sub)
		if err != nil {
			return written{}, err
		}
		how.name, how.dryRun, how.whole = name, len(opts.DryRun) > 0, true
		how.make = func(Object) (Object, error) { return obj.DeepCopyObject().(Object), nil }
		return r.c.server.update(r.kind, how)
	}))
}

// through begins a change through a subresource, if the resource has it.
func (r resource[T, L, A]) through(sub []string) (change, error) {
	c := change{namespace: r.namespace}
	if len(sub) == 0 {
		return c, nil
	}
	c.through = subresource(strings.Join(sub, "/"))
	switch {
	case c.through == throughStatus && r.kind.copyStatus != nil,
		c.through == throughFinalize && r.kind.resource == "namespaces":
		return c, nil
	}
	return c, notFound()
}

// Delete deletes an object, or says that it is to go.
func (r resource[T, L, A]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return r.delete(ctx, "delete", name, opts)
}

func (r resource[T, L, A]) delete(ctx context.Context, verb, name string, opts metav1.DeleteOptions) error {
	if err := r.addressable(name); err != nil {
		return err
	}
	_, err := r.c.write(ctx, r.request(verb, name), func() (written, error) {
		return r.c.server.remove(r.kind, r.namespace, name, opts)
	})
	return err
}

// DeleteCollection deletes the objects that are selected, one after the other in order.
func (r resource[T, L, A]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, sel metav1.ListOptions) error {
	return r.c.call(ctx, r.request("deletecollection", ""), func() trace.Outcome {
		all, err := r.c.server.list(r.kind, r.namespace, &sel)
		if err != nil {
			return trace.Outcome{Err: err}
		}
		for _, obj := range all.objects {
			_, err := r.c.server.remove(r.kind, obj.GetNamespace(), obj.GetName(), opts)
			if err != nil && !apierrors.IsNotFound(err) {
				return trace.Outcome{Err: err}
			}
		}
		return trace.Outcome{Detail: strconv.Itoa(len(all.objects)) + " items"}
	})
}

// Get reads an object.
func (r resource[T, L, A]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	var obj Object
	err := r.c.call(ctx, r.request("get", name), func() trace.Outcome {
		var err error
		if obj, err = r.c.server.get(r.kind, r.namespace, name, opts); err != nil {
			return trace.Outcome{Err: err}
		}
		return trace.Outcome{Detail: "rv=" + obj.GetResourceVersion()}
	})
	return r.answer(obj, err)
}

// List lists the objects that are selected, at one revision.
func (r resource[T, L, A]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	var all listed
	err := r.c.call(ctx, r.request("list", ""), func() trace.Outcome {
		var err error
		if all, err = r.c.server.list(r.kind, r.namespace, &opts); err != nil {
			return trace.Outcome{Err: err}
		}
		return trace.Outcome{Detail: strconv.Itoa(len(all.objects)) + " items rv=" + all.meta.ResourceVersion}
	})
	return r.kind.list(all.meta, all.objects).(L), err
}

// Watch tells of the changes of the objects that are selected. It ends with ctx, with its Stop or with its timeout. It
// has a goroutine: under a stepped host it is no way to learn of things in order; a view is.
func (r resource[T, L, A]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	var c *cursor
	var failed error
	err := r.c.call(ctx, r.request("watch", ""), func() trace.Outcome {
		c, failed = r.c.server.newCursor(r.kind, r.namespace, &opts)
		out := trace.Outcome{Err: failed}
		if opts.ResourceVersion != "" {
			out.Detail = "rv=" + opts.ResourceVersion
		}
		return out
	})
	if err != nil && !apierrors.IsResourceExpired(err) {
		return nil, err
	}
	return newPump(ctx, c, err, opts.TimeoutSeconds), nil
}

// Patch changes an object, or its status, by a JSON patch, a merge patch or a strategic merge patch.
func (r resource[T, L, A]) Patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, subresources ...string,
) (T, error) {
	if err := r.addressable(name); err != nil {
		return r.answer(nil, err)
	}
	return r.answer(r.c.write(ctx, r.request("patch", name, subresources...), func() (written, error) {
		how, err := r.through(subresources)
		if err != nil {
			return written{}, err
		}
		how.name, how.dryRun = name, len(opts.DryRun) > 0
		how.make = func(old Object) (Object, error) { return r.kind.patch(old, pt, data) }
		return r.c.server.update(r.kind, how)
	}))
}

// Apply is refused: the server has no server-side apply.
func (r resource[T, L, A]) Apply(ctx context.Context, _ A, _ metav1.ApplyOptions) (T, error) {
	return r.refuse(ctx, "apply")
}

// ApplyStatus is refused: the server has no server-side apply.
func (r resource[T, L, A]) ApplyStatus(ctx context.Context, _ A, _ metav1.ApplyOptions) (T, error) {
	return r.refuse(ctx, "apply", "status")
}

func (r resource[T, L, A]) refuse(ctx context.Context, verb string, sub ...string) (T, error) {
	return r.answer(r.c.write(ctx, r.request(verb, "", sub...), func() (written, error) {
		return written{}, apierrors.NewMethodNotSupported(r.kind.groupResource(), verb)
	}))
}

// get reads a stored object.
func (s *Server) get(k *kind, namespace, name string, opts metav1.GetOptions) (Object, error) {
	asked, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if asked > 0 {
		if is := s.Revision(); asked > is {
			return nil, tooLarge(asked, is)
		}
	}
	obj := s.lookup(s.tables[k.resource], key(namespace, name))
	if obj == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), name)
	}
	return obj, nil
}
