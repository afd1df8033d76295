package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A process with a queue: a failed key is retried after its back-off, which takes no real time on a
// virtual clock.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{}) // sim.NewLive runs the same on the real clock
	defer host.Close()
	c := host.Process("provisioner")
	failure := errors.New("the array is busy")
	queue := sim.NewQueue[string](c, sim.QueueConfig{})
	queue.Work(func(_ context.Context, volume string) error {
		action := trace.Action{Kind: trace.KindDriver, Verb: "CreateVolume", Object: volume}
		return c.Call(action, func() trace.Outcome { // other tasks may run before the effect
			out := trace.Outcome{Err: failure}
			failure = nil
			return out
		}).Err
	})
	queue.Add("disk-1")
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, r := range host.Log().Records() {
		fmt.Println(r.At, r.Task, r.Action, r.Err)
	}
	// Output:
	// 0s provisioner work sync disk-1 <nil>
	// 0s provisioner driver CreateVolume disk-1 the array is busy
	// 5ms provisioner/ retry timer fire <nil>
	// 5ms provisioner work sync disk-1 <nil>
	// 5ms provisioner driver CreateVolume disk-1 <nil>
}

// Two tasks read a number, suspend, and write one more than they read. Some orders lose an update.
func ExampleNewSeeded() {
	for seed := uint64(1); ; seed++ {
		host := sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(seed)})
		c, number := host.Process("counter"), 0
		for _, name := range []string{"a", "b"} {
			c.Spawn(name, func(context.Context) {
				previous := number
				c.Call(trace.Action{Kind: trace.KindDriver, Verb: "Add"}, func() trace.Outcome { return trace.Outcome{} })
				number = previous + 1
			})
		}
		if err := host.Run(); err != nil {
			log.Fatal(err)
		}
		host.Close()
		if number < 2 {
			fmt.Println("seed", seed, "always returns", number)
			return
		}
	}
	// Output:
	// seed 3 always returns 1
}
