package sim

import (
	"time"

	"k8s.io/utils/clock"
)

// A fastClock passes speed times as fast as another clock, from epoch on.
type fastClock struct {
	clock.WithDelayedExecution

	epoch time.Time // of both clocks
	speed int
}

func newFastClock(of clock.WithDelayedExecution, speed int) fastClock {
	return fastClock{of, of.Now(), speed}
}

func (c fastClock) Now() time.Time {
	return c.epoch.Add(c.WithDelayedExecution.Since(c.epoch) * time.Duration(c.speed))
}

func (c fastClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// real returns how long the other clock takes for d: never less, so that a deadline has passed when a
// timer fires.
func (c fastClock) real(d time.Duration) time.Duration {
	speed := time.Duration(c.speed)
	return (d + speed - 1) / speed
}

func (c fastClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

func (c fastClock) NewTimer(d time.Duration) clock.Timer {
	return fastTimer{c.WithDelayedExecution.NewTimer(c.real(d)), c}
}

func (c fastClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return fastTimer{c.WithDelayedExecution.AfterFunc(c.real(d), f), c}
}

func (c fastClock) Tick(d time.Duration) <-chan time.Time {
	return c.WithDelayedExecution.Tick(c.real(d))
}

func (c fastClock) Sleep(d time.Duration) { c.WithDelayedExecution.Sleep(c.real(d)) }

// A fastTimer is a timer of a fastClock. The times that it sends are those of the other clock.
type fastTimer struct {
	clock.Timer

	clock fastClock
}

func (t fastTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.real(d)) }
