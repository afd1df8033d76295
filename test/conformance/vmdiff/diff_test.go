package vmdiff

import (
	"testing"

	"github.com/volsim/volsim/test/conformance/histories"
)

func TestMain(m *testing.M) { histories.Main(m) }

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

var pair = histories.Pair[step, *world, mutation]{
	Ours: runOurs, Upstream: runUpstream, Excuse: histories.ExcuseBy(deliberate, diskIn),
}

// TestHistories compares 600 histories.
func TestHistories(t *testing.T) { pair.Run(t, 6, drawHistory, 20) }
