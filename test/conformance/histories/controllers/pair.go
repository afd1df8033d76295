package controllers

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A Mutation intercepts the requests of our controllers. Nil changes nothing.
type Mutation = fake.InterceptorFunc

// Instead returns a mutation that answers a request by a function instead of the server.
func Instead(verb, resource string,
	answer func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error),
) Mutation {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if histories.Is(r, verb, resource) {
			return answer(r, serve)
		}
		return serve()
	}
}

// A Controller is one of ours.
type Controller struct {
	Name   string // of its process
	Source string // of its events
	// Filters returns the filters of its caches. Nil: it has none.
	Filters func(caches func() informers.SharedInformerFactory) []fake.Filter
	New     func(process *sim.Process, client *fake.Clientset, informers informers.SharedInformerFactory,
		recorder record.EventRecorder)
}

// A Pair has our controllers and upstream's.
type Pair[W Inhabited] struct {
	NewWorld func(*World) W
	Ours     []Controller
	// Upstream creates upstream's controllers. The functions that it returns run until the context ends.
	Upstream func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) (run []func(context.Context), err error)
	Ticks int // of kubelet and garbage collector after each act
}

// Histories returns the comparison of the pair. A history ends at the first deliberate difference.
func (p Pair[W]) Histories(deliberate []histories.Difference[Step[W], W]) histories.Pair[Step[W], W, Mutation] {
	return histories.Pair[Step[W], W, Mutation]{
		Ours: p.RunOurs, Upstream: p.RunUpstream,
		Excuse: histories.ExcuseBy(deliberate, func(string) string { return "" }),
	}
}

// RunOurs executes a history with our controllers, on a stepped host.
func (p Pair[W]) RunOurs(h histories.History[Step[W]], chooser sim.Chooser, mutation Mutation) histories.Execution[W] {
	host := sim.NewStepped(sim.SteppedConfig{Chooser: chooser, StepsMax: histories.StepsMax})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now, SkipBootstrap: true})
	w := &World{
		Server: server, Client: server.Client(host.ExternalCaller()), Now: host.Now, Pass: histories.NewClock(host).Pass,
	}
	for range p.Ours {
		w.faults = append(w.faults, &histories.Faults{})
	}
	var processes []*sim.Process
	start := func() {
		processes = nil
		for i, c := range p.Ours {
			process := host.Process(c.Name)
			processes = append(processes, process)
			w.faults[i].Caller = process
			client := server.Client(w.faults[i])
			if mutation != nil {
				client = client.WithInterceptor(mutation)
			}
			if c.Filters != nil {
				server.Informers(process, c.Filters(func() informers.SharedInformerFactory { return server.Informers(process) })...)
			}
			c.New(process, client, server.Informers(process),
				events.New(events.Config{Process: process, Client: server.Client(process), Source: c.Source}))
		}
	}
	w.Down = func(meanwhile func() error) error {
		for _, process := range processes {
			host.Crash(process)
		}
		err := meanwhile()
		start()
		return err
	}
	return execute(p.NewWorld(w), h, p.Ticks, start, nil)
}

// drainTime is how long requests of stopped controllers may last. A bubble ends only when all its
// goroutines have.
const drainTime = time.Minute

// RunUpstream executes a history with upstream's controllers, in a bubble. It stops at a state that
// differs from want, unless want is nil.
func (p Pair[W]) RunUpstream(t *testing.T, h histories.History[Step[W]], want []histories.State) (execution histories.Execution[W]) {
	synctest.Test(t, func(t *testing.T) {
		server := fake.NewServer(fake.Config{Now: time.Now, SkipBootstrap: true})
		w := &World{
			Server: server, Client: server.Client(sim.DirectCaller()), Now: time.Now, Pass: histories.PassInBubble,
			faults: []*histories.Faults{{Caller: sim.DirectCaller()}},
		}
		var count atomic.Int64
		var stop func()
		start := func() { stop = p.startUpstream(t, w, &count) }
		w.Down = func(meanwhile func() error) error {
			stop()
			err := meanwhile()
			start()
			return err
		}
		execution = execute(p.NewWorld(w), h, p.Ticks, start, want)
		stop()
		time.Sleep(drainTime)
	})
	return execution
}

// startUpstream starts upstream's controllers, and returns the function that stops them.
func (p Pair[W]) startUpstream(t *testing.T, w *World, count *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	client := histories.UniqueEvents(w.Server, w.faults[0], count)
	factory := informers.NewSharedInformerFactory(client, 0)
	controllers, err := p.Upstream(ctx, client, factory)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	for _, run := range controllers {
		running.Go(func() { run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
}
