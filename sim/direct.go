package sim

import (
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Direct returns a Caller that is of no host: it goes straight ahead, on the real clock, and records nothing. It may be
// used concurrently.
func Direct() Caller { return direct{} }

type direct struct{}

func (direct) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }
func (direct) Now() time.Time                                                 { return time.Now() }
