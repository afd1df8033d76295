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

// notificationsMax bounds how many notifications wait for their process. A reflector blocks when
// the channel is full. If it blocks for long, the server ends the watch, and the reflector resumes
// it.
const notificationsMax = 1000

// feed is an informer with the notifications for it.
type feed struct {
	*informercache.Informer

	process       *sim.Process
	resource      string
	source        cache.ListerWatcher
	example       any           // an object of the type
	timeout       time.Duration // of one list, or of one page of it
	notifications chan notification
}

// newFeed adds an informer of a resource to a process. Its method run fills it.
func newFeed(c *sim.Process, resource string, source cache.ListerWatcher, example any, timeout time.Duration) *feed {
	f := &feed{
		Informer: informercache.New(resource), process: c, resource: resource, source: source,
		example: example, timeout: timeout, notifications: make(chan notification, notificationsMax),
	}
	c.Delivery("cache "+resource, func() bool { return len(f.notifications) > 0 }, f.deliver)
	c.GateWorkers(f.HasSynced)
	return f
}

// run lists and watches until ctx ends.
func (f *feed) run(ctx context.Context) {
	reflector{
		name: f.process.Name() + " " + f.resource, source: f.source, example: f.example, timeout: f.timeout,
		notify: f.notify,
	}.run(ctx)
}

// notify queues a notification for the process.
func (f *feed) notify(ctx context.Context, a notification) error {
	select {
	case f.notifications <- a:
		f.process.Wake()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deliver applies one notification.
func (f *feed) deliver() {
	a := <-f.notifications // does not block: this is the only receiver
	switch {
	case a.err != nil:
		f.record("ERROR", f.resource, trace.Outcome{Err: a.err})
	case a.list:
		for i, obj := range a.objects {
			a.objects[i] = f.Transform(obj.(runtime.Object))
		}
		f.Replace(a.objects, a.revision)
		f.record("LIST", f.resource, trace.Outcome{Detail: strconv.Itoa(f.Len()) + " items rv=" + a.revision})
	default:
		f.apply(a)
	}
}

// apply applies a change of one object.
func (f *feed) apply(a notification) {
	obj := a.object.(runtime.Object)
	key, revision := keyOf(obj), revisionOf(obj)
	kind := watch.Deleted
	if a.gone {
		f.Remove(key, f.Transform(obj), revision, true)
	} else {
		kind = f.Put(key, f.Transform(obj), revision, true)
	}
	f.record(string(kind), f.resource+"/"+key, trace.Outcome{Detail: "rv=" + revision})
}

func (f *feed) record(verb, object string, out trace.Outcome) {
	f.process.Record(trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, out)
}
