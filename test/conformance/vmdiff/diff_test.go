package vmdiff

import (
	"testing"

	"github.com/volsim/volsim/test/conformance/histories"
)

func TestMain(m *testing.M) { histories.Main(m) }

var pair = histories.Pair[step, *world, spoil]{Ours: liveOurs, Upstream: liveUpstream, Excuse: deliberate}

// TestHistories compares a few hundred histories.
func TestHistories(t *testing.T) { pair.Run(t, 6, draw, spoil{}, 20) }
