package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/sim"
)

// Attaches of a volume run one at a time, and a failed one is retried only after its back-off.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	x := executor.New(executor.Config{
		Process: host.Process("attachdetach"),
		OnDone: func(op executor.Operation, outcome executor.Outcome, err error) {
			fmt.Println(op.Name, outcome, err)
		},
	})
	attach := executor.Operation{
		Key:  executor.Key{Volume: "kubernetes.io/csi/disk.example.com^vol-1", Node: "node-1"},
		Name: "volume_attach",
		Run:  func(context.Context) error { return errors.New("no such volume") },
	}
	fmt.Println(x.Start(attach))
	fmt.Println("while it runs:", errors.Is(x.Start(attach), executor.ErrPending))
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	var backoff *executor.BackoffError
	if errors.As(x.Start(attach), &backoff) {
		fmt.Println("again in", backoff.Remaining)
	}
	// Output:
	// <nil>
	// while it runs: true
	// volume_attach final no such volume
	// again in 500ms
}
