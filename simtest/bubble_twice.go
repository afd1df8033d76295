package simtest

import (
	"fmt"
	"testing"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// BubbleTwice runs [Bubble] twice, with choosers that make the same choices, and fails the test if
// the runs differ. The message names the first different step. It can also verify that a failure
// can be replayed: both runs fail and are compared all the same.
func BubbleTwice(t *testing.T, chooser func() sim.Chooser, run func(t *testing.T, b *BubbleWorld)) {
	t.Helper()
	var first, second *BubbleWorld
	// Deferred, as a failed bubble ends the goroutine.
	defer func() {
		if difference := differ(first, second); difference != "" {
			t.Fatal(difference)
		}
	}()
	defer func() { runBubble(t, &second, chooser(), nil, run) }()
	runBubble(t, &first, chooser(), nil, run)
}

// differ returns the first difference of two runs, "" if there is none.
func differ(first, second *BubbleWorld) string {
	if first == nil || second == nil {
		return ""
	}
	a, b := first.log.Records(), second.log.Records()
	for i := range max(len(a), len(b)) {
		one, other := recordText(a, i), recordText(b, i)
		if one != other {
			return fmt.Sprintf("the same choices led to different runs, from step %d on:\n"+
				"  first run:  %s\n  second run: %s\n"+
				"a source of nondeterminism outside the chooser: the order of a map or of Store.List, a select, the jitter "+
				"of a retry, or parallel goroutines (set GOMAXPROCS=1)", i+1, one, other)
		}
	}
	return ""
}

func recordText(records []trace.Record, i int) string {
	if i >= len(records) {
		return "end of the run"
	}
	r := records[i]
	return fmt.Sprintf("%s %s: %s (%s)", r.At, r.Task, r.Action, r.Result())
}
