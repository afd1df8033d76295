package addiff

import (
	"fmt"
	"testing"

	"github.com/volsim/volsim/test/conformance/histories"
)

type (
	history = histories.History[step]
	delta   = histories.Delta[step, *world]
)

var pair = histories.Pair[step, *world, mutation]{
	Ours: runOurs, Upstream: runUpstream, Excuse: histories.ExcuseBy(deliberate, diskIn), Violation: violation,
	Limits: histories.Limits{
		First:        histories.Patience{Upstream: 30, Total: 300, Ours: 30},
		Confirm:      histories.Patience{Upstream: 200, Total: 2000, Ours: 100},
		Shrink:       histories.Patience{Upstream: 6, Total: 60, Ours: 6},
		ShrinkMutant: histories.Patience{Upstream: 6, Total: 60, Ours: 6},
	},
}

func TestMain(m *testing.M) { histories.Main(m) }

// TestHistories compares 2,000 histories.
func TestHistories(t *testing.T) { pair.Run(t, 20, drawHistory, 20) }

// violation returns which single-node volumes were attached to a second node, or "".
func violation(w *world) string {
	if volumes := w.observer.doublyAttached(); len(volumes) > 0 {
		return fmt.Sprintf("ours requested a second attachment of single-node volumes: %v", volumes)
	}
	return ""
}
