package remote

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/informercache"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// arrivalsMax is how many arrivals wait for their component. A reflector that finds no room waits too, and the server with
// it: one that is kept waiting for long ends the watch, and the reflector begins another where it stands.
const arrivalsMax = 1000

// feed is a view and what there is to tell it.
type feed struct {
	*informercache.View

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
		View: informercache.New(c.Name() + " cache " + resource), component: c, resource: resource, source: source,
		example: example, timeout: timeout, arrivals: make(chan arrival, arrivalsMax),
	}
	c.Delivery("cache "+resource, func() bool { return len(f.arrivals) > 0 }, f.step)
	c.Gate(f.HasSynced)
	return f
}

// run lists and watches until ctx ends.
func (f *feed) run(ctx context.Context) {
	reflector{
		name: f.component.Name() + " " + f.resource, source: f.source, example: f.example, timeout: f.timeout, tell: f.tell,
	}.run(ctx)
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

func (f *feed) note(verb, object string, out trace.Outcome) {
	f.component.Note(trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, out)
}
