package histories

import (
	"errors"
	"testing/synctest"
	"time"

	"github.com/volsim/volsim/sim"
)

// StepsMax bounds the steps of an execution of ours.
const StepsMax = 500_000

// A Clock lets time pass in a world on a stepped host.
type Clock struct {
	host  *sim.Stepped
	alarm *sim.Timer
	rung  bool
}

// NewClock returns a clock.
func NewClock(host *sim.Stepped) *Clock {
	c := &Clock{host: host}
	c.alarm = host.Process("clock").NewTimer("alarm", func() { c.rung = true })
	return c
}

// Pass lets time pass, and then lets tasks run until none is runnable.
func (c *Clock) Pass(d time.Duration) error {
	if c.rung = d == 0; !c.rung {
		c.alarm.Reset(d)
	}
	for !c.rung || c.host.Busy() {
		if !c.host.Step() {
			return errors.New("no task is runnable, not even the alarm")
		}
		if c.host.Steps() >= StepsMax {
			return sim.ErrSteps
		}
	}
	return nil
}

// PassInBubble lets time pass in a world in a bubble.
func PassInBubble(d time.Duration) error {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
	return nil
}
