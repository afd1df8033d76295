package pvcontroller

import (
	"testing"
	"time"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/sim"
)

// On a machine that was suspended for some time, an operation's back-off may be over as soon as it
// has begun.
func TestBackoffThatIsOverAlready(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	component := host.Process("c")
	queue := sim.NewQueue[string](component, sim.QueueConfig{Name: "volumes"})
	o := newOperations(component, nil)
	o.retryLater(queueItem{queue, "waits"}, &executor.BackoffError{Remaining: time.Second})
	o.retryLater(queueItem{queue, "is over"}, nil)
	if queue.Len() != 1 {
		t.Errorf("%d keys are queued, want the one with an expired back-off", queue.Len())
	}
}
