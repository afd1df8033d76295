package sim_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volsim/volsim/sim"
)

// A user may signal its end after its last action. A Wait for that signal must be woken.
func TestWaitForTheEndOfAUser(t *testing.T) {
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	asked := make(chan struct{}, 1)
	var ended atomic.Bool
	host.Process("user").User("", func(context.Context) {
		<-asked
		ended.Store(true)
	})
	host.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if it fails
	defer cancel()
	err := host.Wait(ctx, "the end", func() bool {
		defer func() {
			select {
			case asked <- struct{}{}:
			default:
			}
		}()
		return ended.Load()
	})
	if err != nil {
		t.Error(err)
	}
}
