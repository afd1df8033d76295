package csitest

import (
	"time"

	"github.com/volsim/volsim/cluster"
)

const (
	// clockSpeed is how many times as fast as this machine's the clock of a live world is: what is tried again
	// after seconds is so after tens of milliseconds.
	clockSpeed = 60
	// liveLimit is how long a trial in a live world may take. It is longer than the longest back-off there.
	liveLimit = 20 * time.Second
)

// isLive reports whether the disturbance needs no stepping.
func (d disturbance) isLive() bool { return d.kind == lost || d.kind == refused }

// prepareLive changes the configuration of a world to that of a live one. The disturbance is an answer of a
// Script.
func (w *world) prepareLive(cfg *cluster.Config, t trial) {
	cfg.ClockSpeed = clockSpeed
	if t.call.n == 0 {
		return
	}
	script := &Script{}
	script.On(t.call.rpc, t.call.n, Answer{Code: t.how.code, Late: t.how.kind == lost})
	if why := t.how.lost(); why != "" {
		w.observer.loseLater(t.call.rpc, t.call.n, why)
	}
	cfg.Drivers[0] = script.Driver(cfg.Drivers[0])
}
