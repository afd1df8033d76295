package simtest

import (
	"fmt"
	"testing"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// BubbleTwice runs [Bubble] twice, with choosers that have to choose alike, and fails the test if something else than the
// choosers has had a say: it names the first step at which the runs differ. Whether a failure can be replayed is found
// out in this way too: both runs fail, and are compared all the same.
func BubbleTwice(t *testing.T, chooser func() sim.Chooser, run func(t *testing.T, b *BubbleWorld)) {
	t.Helper()
	var first, second *BubbleWorld
	// Deferred, since a failed bubble ends the goroutine.
	defer func() {
		if difference := differ(first, second); difference != "" {
			t.Fatal(difference)
		}
	}()
	defer func() { runBubble(t, &second, chooser(), run) }()
	runBubble(t, &first, chooser(), run)
}

// differ tells where two runs differ, or "".
func differ(first, second *BubbleWorld) string {
	if first == nil || second == nil {
		return ""
	}
	a, b := first.log.Records(), second.log.Records()
	for i := range max(len(a), len(b)) {
		one, other := recordText(a, i), recordText(b, i)
		if one != other {
			return fmt.Sprintf("the same choices gave another run, from step %d on:\n"+
				"  first run:  %s\n  second run: %s\n"+
				"what decides there is not the chooser: the order of a map or of Store.List, a select, the jitter of a retry, "+
				"or which of two processors is faster (GOMAXPROCS=1)", i+1, one, other)
		}
	}
	return ""
}

func recordText(records []trace.Record, i int) string {
	if i >= len(records) {
		return "nothing more"
	}
	r := records[i]
	return fmt.Sprintf("%s %s: %s (%s)", r.At, r.Task, r.Action, r.Result())
}
