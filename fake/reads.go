package fake

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Reads says where a client reads objects.
type Reads string

// The places where a client reads objects.
const (
	// ReadCache reads from the caches of the process, as the clients of controller-runtime's managers
	// do. A cache lags behind the server: a read may miss even a write of the same client.
	ReadCache Reads = ""
	// ReadYourWrites reads from the caches of the process, when they contain what the client itself
	// has written to the resource.
	ReadYourWrites Reads = "your-writes"
	// ReadLive reads from the API server.
	ReadLive Reads = "live"
)

// cachedReads are the caches that a client reads from, and what it has written.
type cachedReads struct {
	reads   Reads
	process *sim.Process
	written map[*table]int64 // the revision of the client's last write; only for ReadYourWrites
}

// WithReads returns a client that gets and lists objects from the caches of a process: those of its
// [Server.Informers]. It belongs to the tasks of the process. Watches, subresources and writes go
// to the server.
//
// A read is no suspension point: no cache changes between two statements of a task. The first read
// of a resource creates the cache, if the process does not have it, and waits for its first list. A
// list returns the newest state of the cache, whatever resourceVersion asks for; limit cuts it off,
// and continue is an error.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/cache/internal CacheReader.
func (c *Clientset) WithReads(process *sim.Process, reads Reads) *Clientset {
	out := c.clone()
	out.cached = nil
	if reads != ReadLive {
		out.cached = &cachedReads{reads: reads, process: process, written: map[*table]int64{}}
	}
	return out
}

// cache returns the cache to read from. It is nil for a client that reads from the server, and for
// resources that show another one.
func (r ResourceClient) cache() (*informer, error) {
	c := r.c.cached
	if c == nil || r.kind.base != nil {
		return nil, nil
	}
	if err := c.process.CheckTask(trace.Action{Kind: trace.KindAPI, Verb: "read", Object: r.kind.resource}); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	v, err := r.c.server.Informers(c.process).(*factory).ofKind(r.kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	least := c.written[v.table]
	ready := func() bool { return v.HasSynced() && v.revision() >= least }
	if ready() {
		return v, nil
	}
	c.process.Wait("cache "+r.kind.resource, 0, ready)
	return v, nil
}

// wrote notes a write of the client.
func (c *cachedReads) wrote(t *table, done writeResult) {
	if c.reads != ReadYourWrites || done.after == nil {
		return
	}
	if revision, err := strconv.ParseInt(done.after.GetResourceVersion(), 10, 64); err == nil {
		c.written[t] = max(c.written[t], revision)
	}
}

// revision returns the revision of the last change of the cache.
func (v *informer) revision() int64 {
	revision, _ := strconv.ParseInt(v.LastSyncResourceVersion(), 10, 64) // it is the server's
	return revision
}

// cachedObject returns an object of a cache in its stored form.
func (r ResourceClient) cachedObject(v *informer, obj any) (Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || v.version == nil {
		return obj.(Object), nil
	}
	return v.version.typed(u.DeepCopy(), metav1.FieldValidationIgnore)
}

// getCached returns an object of the cache.
func (r ResourceClient) getCached(ctx context.Context, v *informer, name string) (Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	obj, ok := v.Get(key(r.namespace, name))
	v.process.RecordRead(func() trace.Read {
		read := trace.Read{Verb: "get", Object: traceName(r.kind, r.namespace, name), Version: int(v.revision())}
		if ok {
			read.Items = 1
		}
		return read
	})
	if !ok {
		return nil, apierrors.NewNotFound(r.kind.groupResource(), name)
	}
	return r.cachedObject(v, obj)
}

// listCached returns the selected objects of the cache.
func (r ResourceClient) listCached(ctx context.Context, v *informer, opts metav1.ListOptions) (ObjectList, error) {
	if err := ctx.Err(); err != nil {
		return ObjectList{}, err
	}
	if opts.Continue != "" {
		return ObjectList{}, apierrors.NewBadRequest("continue list option is not supported by the cache")
	}
	sel, err := newSelector(r.kind, r.namespace, &opts)
	if err != nil {
		return ObjectList{}, err
	}
	out := ObjectList{ListMeta: metav1.ListMeta{ResourceVersion: v.LastSyncResourceVersion()}}
	for _, cached := range v.GetIndexer().List() {
		obj, err := r.cachedObject(v, cached)
		if err != nil {
			return ObjectList{}, err
		}
		if !sel.matches(obj) {
			continue
		}
		if opts.Limit > 0 && int64(len(out.Objects)) == opts.Limit {
			break
		}
		out.Objects = append(out.Objects, obj)
	}
	v.process.RecordRead(func() trace.Read {
		return trace.Read{
			Verb: "list", Object: traceName(r.kind, r.namespace, ""), Version: int(v.revision()), Items: len(out.Objects),
			Selects: func(obj runtime.Object) bool {
				o, ok := obj.(Object)
				return ok && sel.matches(o)
			},
		}
	})
	return out, nil
}
