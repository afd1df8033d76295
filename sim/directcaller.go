package sim

import (
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// DirectCaller returns a Caller that belongs to no host. It runs effects at once, on the real
// clock, and records nothing. It may be used concurrently.
func DirectCaller() Caller { return directCaller{} }

type directCaller struct{}

func (directCaller) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }

func (directCaller) Now() time.Time { return time.Now() }
