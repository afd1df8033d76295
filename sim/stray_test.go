package sim_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var readAction = trace.Action{Kind: trace.KindAPI, Verb: "get", Object: "secrets/default/a"}

// read makes a call and returns its error.
func read(c sim.Caller) error {
	return c.Call(readAction, func() trace.Outcome { return trace.Outcome{} }).Err
}

// A call by a goroutine that a task started is refused, and the run fails, whether the task waits for
// the goroutine or not.
func TestStrayGoroutine(t *testing.T) {
	t.Parallel()
	const byComponent = "get secrets/default/a: the call was made by a goroutine that component operator started in " +
		"sim_test.TestStrayGoroutine."
	for _, c := range []struct {
		name  string
		stray func(host *sim.Stepped, p *sim.Process) error
		want  string
		// The stray goroutine gets an error. Sleep and Wait return none.
		noErr bool
	}{
		{"call", func(_ *sim.Stepped, p *sim.Process) error { return read(p) }, byComponent, false},
		{
			"external call", func(host *sim.Stepped, _ *sim.Process) error { return read(host.ExternalCaller()) },
			"get secrets/default/a: the call was made by a goroutine that a user of the world started in sim_test.", false,
		},
		{"sleep", func(_ *sim.Stepped, p *sim.Process) error { p.Sleep(time.Second); return nil }, "component operator", true},
		{
			"wait", func(_ *sim.Stepped, p *sim.Process) error { p.Wait("x", 0, func() bool { return true }); return nil },
			"wait for x: the call was made by a goroutine that component operator started", true,
		},
		{"wait of the host", func(host *sim.Stepped, _ *sim.Process) error {
			return host.Wait(context.Background(), "x", func() bool { return true })
		}, "wait for x: the call", false},
		{"check", func(_ *sim.Stepped, p *sim.Process) error { return p.CheckTask(readAction) }, byComponent, false},
		{"grandchild", func(_ *sim.Stepped, p *sim.Process) error {
			done := make(chan error)
			go func() { done <- read(p) }()
			return <-done
		}, byComponent, false},
	} {
		for _, awaited := range []bool{true, false} {
			name := c.name
			if !awaited {
				name += ", not awaited"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				host := sim.NewStepped(sim.SteppedConfig{})
				defer host.Close()
				p := host.Process("operator")
				start, done, later := make(chan bool), make(chan error, 1), false
				p.Worker("first", func() bool { return !later }, func(context.Context) {
					go func() {
						<-start
						done <- c.stray(host, p)
					}()
					if awaited {
						close(start)
						done <- <-done
					}
					later = true
					_ = read(p) // the delivery runs here
				})
				p.Delivery("second", func() bool { return later }, func() {
					if !awaited {
						close(start)
						done <- <-done
					}
					later = false
				})
				err := host.Run()
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(stray_test.go:") ||
					!strings.Contains(err.Error(), "simtest.Bubble") {
					t.Errorf("Run: %v\nwant %q", err, c.want)
				}
				if got := <-done; (got == nil) != c.noErr {
					t.Errorf("the goroutine got %v", got)
				}
				if host.Step() {
					t.Error("a step after the call")
				}
			})
		}
	}
}

// A call while another goroutine runs the world is refused. Between two runs any goroutine may use
// the world, as those of subtests do.
func TestGoroutinesOfTests(t *testing.T) {
	t.Parallel()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	p := host.Process("operator")
	used := func() error {
		done := make(chan error)
		go func() {
			err := read(host.ExternalCaller())
			if err == nil {
				err = read(p)
			}
			if err == nil {
				err = host.Run()
			}
			done <- err
		}()
		return <-done
	}
	for range 2 {
		if err := used(); err != nil {
			t.Fatal(err)
		}
		if err := host.Run(); err != nil {
			t.Fatal(err)
		}
	}
	calls, results := make(chan bool), make(chan error)
	go func() {
		<-calls
		results <- read(host.ExternalCaller())
	}()
	p.Spawn("waits", func(context.Context) {
		calls <- true
		<-results
	})
	want := "while another one runs the stepped world: make the call in a User of the cluster"
	if err := host.Run(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Run: %v", err)
	}
}

// A goroutine that outlives its world gets errors.
func TestStrayGoroutineAfterClose(t *testing.T) {
	t.Parallel()
	host := sim.NewStepped(sim.SteppedConfig{})
	p := host.Process("operator")
	closed, done := make(chan bool), make(chan error)
	p.Spawn("starts", func(context.Context) {
		go func() {
			<-closed
			done <- read(p)
		}()
	})
	if err := host.Run(); err != nil && !strings.Contains(err.Error(), "outlives the task operator/starts") {
		t.Errorf("Run: %v", err)
	}
	host.Close()
	close(closed)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "host closed") {
		t.Errorf("error %v", err)
	}
}

// Worlds in parallel do not disturb each other, nor do crashes of one process by the task of another.
func TestNoStrayGoroutines(t *testing.T) {
	t.Parallel()
	var worlds sync.WaitGroup
	for range 8 {
		worlds.Go(func() {
			pool := &sim.Pool{}
			defer pool.Close()
			for range 20 {
				host := sim.NewStepped(sim.SteppedConfig{Pool: pool})
				victim := host.Process("victim")
				for range 3 {
					victim.Spawn("calls", func(context.Context) {
						defer func() { _ = read(victim) }()
						for {
							_ = read(victim)
							victim.Sleep(time.Second)
						}
					})
				}
				killer := host.Process("killer")
				killer.Spawn("kills", func(context.Context) {
					killer.Sleep(5 * time.Second)
					_ = read(killer)
					host.Crash(victim)
					_ = read(killer)
					_ = read(host.ExternalCaller())
				})
				if err := host.Run(); err != nil {
					t.Error(err)
				}
				host.Close()
			}
		})
	}
	worlds.Wait()
}

// Under a live host the goroutines of a task may make calls.
func TestGoroutinesOfLiveTasks(t *testing.T) {
	t.Parallel()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	p := host.Process("operator")
	var errs [4]error
	done := false
	p.Spawn("starts", func(context.Context) {
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() {
				for range 10 {
					if err := read(p); err != nil {
						errs[i] = err
					}
				}
			})
		}
		_ = read(p)
		calls.Wait()
		done = true
		_ = read(p)
	})
	host.Start()
	finished := make(chan bool)
	p.Spawn("waits", func(context.Context) {
		p.Wait("done", 0, func() bool { return done })
		close(finished)
	})
	<-finished
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// A goroutine that outlives the work of its task ends the run, whether it makes calls or not.
func TestOutlivingGoroutine(t *testing.T) { //nolint:paralleltest // others would change the number of goroutines
	stop := make(chan bool)
	defer close(stop)
	for name, wait := range map[string]func(){
		"receive": func() { <-stop },
		"select": func() {
			select {
			case <-stop:
			case <-time.After(time.Hour):
			}
		},
		"sleep":       func() { time.Sleep(time.Second) },
		"nil channel": func() { <-context.Background().Done() },
	} {
		host := sim.NewStepped(sim.SteppedConfig{})
		p := host.Process("operator")
		p.Spawn("starts", func(context.Context) {
			_ = read(p)
			started := make(chan bool)
			go func() {
				close(started)
				wait()
			}()
			<-started
			_ = read(p)
		})
		err := host.Run()
		host.Close()
		want := "component operator started a goroutine in sim_test.TestOutlivingGoroutine."
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "that outlives the task operator/starts") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Goroutines that end before their task are no error, nor are those of the standard library and those
// of other tests.
func TestNoOutlivingGoroutines(t *testing.T) {
	t.Parallel()
	var worlds sync.WaitGroup
	for range 4 {
		worlds.Go(func() {
			for range 50 {
				host := sim.NewStepped(sim.SteppedConfig{})
				p := host.Process("operator")
				for i := range 4 {
					p.Spawn(fmt.Sprint("task", i), func(ctx context.Context) {
						_ = read(p)
						values, all := make(chan int), make(chan bool)
						go func() {
							for range values {
							}
							close(all)
						}()
						for i := range 3 {
							values <- i
						}
						close(values)
						if i%2 == 0 {
							<-all // otherwise it is about to end
						}
						_ = read(p)
					})
				}
				if err := host.Run(); err != nil {
					t.Error(err)
				}
				host.Close()
			}
		})
	}
	worlds.Wait()
}
