package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// knownVersions are the versions of controller-runtime whose controllers have the fields that this
// package uses.
const knownVersions = "v0.23 to v0.25"

type logConstructor = func(*reconcile.Request) logr.Logger

// controllerFields are the fields of controller-runtime's controller that this package reads or
// sets, and their types.
var controllerFields = map[string]reflect.Type{
	"Name":                    reflect.TypeFor[string](),
	"MaxConcurrentReconciles": reflect.TypeFor[int](),
	"Do":                      reflect.TypeFor[reconcile.Reconciler](),
	"NewQueue":                reflect.TypeFor[newQueueFunc](),
	"LogConstructor":          reflect.TypeFor[logConstructor](),
	"ReconciliationTimeout":   reflect.TypeFor[time.Duration](),
	"startWatches":            reflect.TypeFor[[]source.Source](),
}

// checkFields returns an error if a controller lacks a field.
func checkFields(fields reflect.Value) error {
	for _, name := range slices.Sorted(maps.Keys(controllerFields)) {
		if fields.Kind() == reflect.Struct {
			if f := fields.FieldByName(name); f.IsValid() && f.Type() == controllerFields[name] {
				continue
			}
		}
		return fmt.Errorf("no field %s %v: not a controller of controller-runtime %s for reconcile.Request; "+
			"create it with package builder", name, controllerFields[name], knownVersions)
	}
	return nil
}

type newQueueFunc = func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

// A controller is a controller whose queue and workers are those of package sim.
type controller struct {
	ctrl.Controller
	name    string
	workers int
	logger  logConstructor
	process *sim.Process
	keys    *sim.Queue[reconcile.Request]
	queue   *queue
}

// newController prepares a controller.
func newController(p *sim.Process, c ctrl.Controller) (*controller, error) {
	fields := reflect.Indirect(reflect.ValueOf(c))
	if err := checkFields(fields); err != nil {
		return nil, fmt.Errorf("controller %T: %w", c, err)
	}
	newQueue, do := fields.FieldByName("NewQueue"), fields.FieldByName("Do")
	out := &controller{Controller: c, name: fields.FieldByName("Name").String(), process: p}
	out.workers = int(fields.FieldByName("MaxConcurrentReconciles").Int())
	out.logger = fields.FieldByName("LogConstructor").Interface().(logConstructor)
	fields.FieldByName("ReconciliationTimeout").SetInt(0) // it would be real time
	out.keys = sim.NewQueue[reconcile.Request](p, sim.QueueConfig{Name: out.name})
	out.queue = &queue{keys: out.keys, got: make(chan struct{}), down: make(chan struct{}), failures: map[reconcile.Request]int{}}
	newQueue.Set(reflect.ValueOf(newQueueFunc(
		func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return out.queue
		})))
	do.Set(reflect.ValueOf(unwindable{do.Interface().(reconcile.Reconciler)}))
	return out, nil
}

// startSources starts the controller's sources and ends its goroutines.
func (c *controller) startSources(caches *processCache) error {
	sources := reflect.Indirect(reflect.ValueOf(c.Controller)).FieldByName("startWatches")
	for i := range sources.Len() {
		if source := sources.Index(i).Elem(); source.Kind() == reflect.Pointer && source.Elem().Kind() == reflect.Struct &&
			source.Elem().FieldByName("source").Kind() == reflect.Chan {
			return errors.New("source is a channel: a stepped world cannot schedule its goroutine; " +
				"use a watch, or a reconciler that requeues")
		}
	}
	ctx := &startContext{Context: context.Background(), started: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	var err error
	select {
	case <-c.queue.got: // all sources have started
		ctx.end(nil)
		<-ended
	case err = <-caches.failed:
		ctx.end(err)
		<-ended
	case err = <-ended:
		ctx.end(err)
	}
	<-c.queue.down
	return err
}

// A startContext ends Controller.Start when the sources have started. Contexts made of it before
// that, which handlers keep, end only if a source fails.
type startContext struct {
	context.Context
	started chan struct{}

	mu       sync.Mutex
	err      error
	children []func()
}

// end ends Controller.Start. With an error, the contexts made of c end, too.
func (c *startContext) end(err error) {
	c.mu.Lock()
	children := c.children
	if err != nil {
		c.err = context.Canceled
	}
	c.mu.Unlock()
	close(c.started)
	if err != nil {
		for _, cancel := range children {
			cancel()
		}
	}
}

// Done implements context.Context.
func (c *startContext) Done() <-chan struct{} { return c.started }

// Err implements context.Context.
func (c *startContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc keeps the function that cancels a context made of this one. Package context calls it.
func (c *startContext) AfterFunc(cancel func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.children = append(c.children, cancel)
	return func() bool { return true }
}

// work adds the workers.
func (c *controller) work() {
	for range c.workers {
		c.keys.Work(c.sync)
	}
}

// errRequeue requeues a key with back-off.
var errRequeue = errors.New("requeue")

// sync reconciles one request.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller reconcileHandler.
func (c *controller) sync(ctx context.Context, request reconcile.Request) error {
	unwound := new(unwinding)
	ctx = log.IntoContext(context.WithValue(ctx, unwindingKey{}, unwound),
		c.logger(&request))
	result, err := c.Reconcile(ctx, request)
	if unwound.value != nil {
		panic(unwound.value)
	}
	switch {
	case err != nil:
		c.process.Record(trace.Action{Kind: trace.KindWork, Verb: "fail", Object: request.String()}, trace.Outcome{Err: err})
		log.FromContext(ctx).Error(err, "Reconciler error")
		if errors.Is(err, reconcile.TerminalError(nil)) {
			return nil
		}
		return err
	case result.RequeueAfter > 0:
		c.keys.AddAfter(request, result.RequeueAfter)
	case result.Requeue: //nolint:staticcheck // reconcilers use it
		return errRequeue
	}
	return nil
}

// An unwinding is the panic that unwinds a task. A controller recovers panics of its reconciler; it
// must not recover this one.
type unwinding struct{ value any }

type unwindingKey struct{}

// unwindable is a reconciler that keeps an unwinding from its controller.
type unwindable struct{ reconcile.Reconciler }

// Reconcile implements reconcile.Reconciler.
func (u unwindable) Reconcile(ctx context.Context, request reconcile.Request) (_ reconcile.Result, err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if unwound, ok := ctx.Value(unwindingKey{}).(*unwinding); ok && sim.Unwinding(r) {
			unwound.value, err = r, errors.New("unwound")
			return
		}
		panic(r)
	}()
	return u.Reconciler.Reconcile(ctx, request)
}

// A queue is the queue that a controller's handlers add to. Its keys are those of a sim.Queue. To
// the controller's own workers it is shut down.
type queue struct {
	keys     *sim.Queue[reconcile.Request]
	failures map[reconcile.Request]int
	getOnce  sync.Once
	got      chan struct{} // closed by the first Get
	downOnce sync.Once
	down     chan struct{} // closed by ShutDown
}

func (q *queue) Add(r reconcile.Request)                       { q.keys.Add(r) }
func (q *queue) AddAfter(r reconcile.Request, d time.Duration) { q.keys.AddAfter(r, d) }
func (q *queue) AddRateLimited(r reconcile.Request)            { q.failures[r]++; q.keys.AddRateLimited(r) }

func (q *queue) Forget(r reconcile.Request)          { delete(q.failures, r); q.keys.Forget(r) }
func (q *queue) NumRequeues(r reconcile.Request) int { return q.failures[r] }
func (q *queue) Len() int                            { return q.keys.Len() }
func (q *queue) Done(reconcile.Request)              {}
func (q *queue) ShutDown()                           { q.downOnce.Do(func() { close(q.down) }) }
func (q *queue) ShutDownWithDrain()                  { q.ShutDown() }
func (q *queue) ShuttingDown() bool                  { return false }

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (reconcile.Request, bool) {
	q.getOnce.Do(func() { close(q.got) })
	return reconcile.Request{}, true
}
