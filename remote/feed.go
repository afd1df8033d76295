package remote

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
	"github.com/volsim/volsim/view"
)

// arrivalsMax is how many arrivals wait for their component. A reflector that finds no room waits too, and the server with
// it: one that is kept waiting for long ends the watch, and the reflector begins another where it stands.
const arrivalsMax = 1000

// arrival is one thing that a reflector has to tell: a list, an object that came or changed, one that went, or an error.
type arrival struct {
	list     bool
	objects  []any // of a list
	revision string
	object   any // that came, changed or went
	gone     bool
	err      error // it could not list or watch
}

// feed is a view and what there is to tell it.
type feed struct {
	*view.View

	component *sim.Component
	resource  string
	source    cache.ListerWatcher
	example   any           // an object of the type
	timeout   time.Duration // of one list, or of one page of it
	arrivals  chan arrival
}

// newFeed gives a component a view of a resource, which run fills.
func newFeed(c *sim.Component, resource string, source cache.ListerWatcher, example any, timeout time.Duration) *feed {
	f := &feed{
		View: view.New(c.Name() + " cache " + resource), component: c, resource: resource, source: source,
		example: example, timeout: timeout, arrivals: make(chan arrival, arrivalsMax),
	}
	c.Delivery("cache "+resource, func() bool { return len(f.arrivals) > 0 }, f.step)
	c.Gate(f.HasSynced)
	return f
}

// run lists and watches until ctx ends.
func (f *feed) run(ctx context.Context) {
	quiet := klog.NewContext(ctx, logr.Discard()) // what is wrong is told by way of the component
	r := cache.NewReflectorWithOptions(listening{f, cache.ToListerWatcherWithContext(f.source)}, f.example,
		&intake{ctx, f}, cache.ReflectorOptions{Name: f.component.Name() + " " + f.resource})
	r.RunWithContext(quiet)
}

// tell puts an arrival where the component finds it.
func (f *feed) tell(ctx context.Context, a arrival) error {
	select {
	case f.arrivals <- a:
		f.component.Wake()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step takes in one arrival.
func (f *feed) step() {
	a := <-f.arrivals // there is one: nobody else takes them
	switch {
	case a.err != nil:
		f.note("ERROR", f.resource, trace.Outcome{Err: a.err})
	case a.list:
		for i, obj := range a.objects {
			a.objects[i] = f.Transformed(obj.(runtime.Object))
		}
		f.Replace(a.objects, a.revision)
		f.note("LIST", f.resource, trace.Outcome{Detail: strconv.Itoa(f.Len()) + " items rv=" + a.revision})
	default:
		f.take(a)
	}
}

// take takes in what became of one object.
func (f *feed) take(a arrival) {
	obj := a.object.(runtime.Object)
	key, revision := keyOf(obj), revisionOf(obj)
	kind := watch.Deleted
	if a.gone {
		f.Remove(key, f.Transformed(obj), revision, true)
	} else {
		kind = f.Put(key, f.Transformed(obj), revision, true)
	}
	f.note(string(kind), f.resource+"/"+key, trace.Outcome{Detail: "rv=" + revision})
}

// keyOf is an object's "namespace/name", or "name".
func keyOf(obj any) string {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		panic("remote: " + err.Error()) // the reflector looked at the type
	}
	return key
}

func (f *feed) note(verb, object string, out trace.Outcome) {
	f.component.Note(trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, out)
}

// intake is where a reflector puts what it hears.
type intake struct {
	ctx  context.Context //nolint:containedctx // the reflector's
	feed *feed
}

var _ cache.ReflectorStore = (*intake)(nil)

// Add tells that an object came or changed.
func (i *intake) Add(obj any) error { return i.feed.tell(i.ctx, arrival{object: obj}) }

// Update tells that an object came or changed.
func (i *intake) Update(obj any) error { return i.feed.tell(i.ctx, arrival{object: obj}) }

// Delete tells that an object went.
func (i *intake) Delete(obj any) error { return i.feed.tell(i.ctx, arrival{object: obj, gone: true}) }

// Replace tells of a list, in the order of names: the reflector has put it together in none.
func (i *intake) Replace(objects []any, revision string) error {
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return i.feed.tell(i.ctx, arrival{list: true, objects: objects, revision: revision})
}

// Resync does nothing.
func (i *intake) Resync() error { return nil }

// listening is a source of which the component hears when it fails. A list has a limit of time; a watch has the server's.
type listening struct {
	feed *feed
	from cache.ListerWatcherWithContext
}

var (
	_ cache.ListerWatcherWithContext = listening{}
	_ cache.ListerWatcher            = listening{}
)

// ListWithContext lists.
func (l listening) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	limited, cancel := context.WithTimeout(ctx, l.feed.timeout)
	defer cancel()
	list, err := l.from.ListWithContext(limited, opts)
	l.failed(ctx, err)
	return list, err
}

// WatchWithContext watches.
func (l listening) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := l.from.WatchWithContext(ctx, opts)
	l.failed(ctx, err)
	return w, err
}

// List lists.
func (l listening) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// Watch watches.
func (l listening) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

// failed tells the component of an error, but for one that is part of the ordinary course.
func (l listening) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) || expired(err) {
		return
	}
	_ = l.feed.tell(ctx, arrival{err: err}) // it fails when ctx ends: then nobody listens
}

// expired tells whether the server says that what was asked for is too old, or not there yet: the reflector asks anew.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
