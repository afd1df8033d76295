package attachdetach_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/sim"
)

// A crash states when the controller crashes in a run of a case: after that many steps of its tasks
// and the attacher's. Then it restarts with stale lists. The zero crash is none.
type crash struct {
	after int
	again int // it is killed once more, so many turns later; 0: it is not
	lags  []lag
	pool  *sim.Pool // nil: the run has its own
}

// due reports whether the controller crashes after a step.
func (c crash) due(turn int) bool { return turn == c.after || c.again > 0 && turn == c.after+c.again }

// lag is a first list that is some events old.
type lag struct {
	resource string
	events   int
}

// starts are the ways in which the controller starts again.
var starts = []struct {
	name  string
	again int
	lags  []lag
}{
	{"fresh lists", 0, nil},
	{"an old list of attachments", 0, []lag{{"volumeattachments", 2}}},
	{"old lists of nodes and pods", 0, []lag{{"nodes", 2}, {"pods", 2}}},
	{"nothing but old lists, twice", 2, []lag{
		{"csidrivers", 3}, {"nodes", 3}, {"persistentvolumeclaims", 3}, {"persistentvolumes", 3}, {"pods", 3}, {"volumeattachments", 3},
	}},
}

// endingOtherwise are the cases that may end otherwise after a crash, and why. Their safety is judged all the same.
var endingOtherwise = map[string]string{
	"pictures-1":     "a PersistentVolume is gone: when the node was told, nobody knows any more what the VolumeAttachment is of",
	"recovery-1":     "so it is here, as upstream; recovery-1+ has its PersistentVolumes",
	"recovery-2":     "so it is here",
	"recovery-3":     "so it is here",
	"recovery-4":     "so it is here",
	"recovery-5+":    "so it is here",
	"multi-4":        "two nodes have what may be on one: where neither is certain any more, each waits for the other",
	"reconciler-7++": "two nodes wait for a volume for one, which may go to either",
	"actual-33":      "a device path stands in the node's status only, and an attachment that was uncertain has none",
}

// TestCrashAtEachSuspension crashes the controller in each case after each step of its tasks (at a
// request, a wait or a sleep) and of the attacher. It restarts with fresh lists and with stale
// ones. The final state is the same as without the crash. Meanwhile no volume is detached that a
// node uses or has in its status, no single-node volume is attached to two nodes, and no node's
// status lists a volume that is not attached.
func TestCrashAtEachSuspension(t *testing.T) {
	t.Parallel()
	book.EachCase(t, crashEverywhere)
}

func crashEverywhere(t *testing.T, f *casefile.File, c *casefile.Case) {
	t.Helper()
	want, err := runCase(f, c, crash{})
	if err != nil {
		t.Fatal(err)
	}
	if want.turns == 0 {
		t.Fatal("the controller has no turn")
	}
	ways, stride, otherwise, pool := starts, 1, false, &sim.Pool{}
	defer pool.Close()
	if testing.Short() {
		ways, stride = slices.Concat(ways[:1], ways[len(ways)-1:]), 7
	}
	for after := 1; after <= want.turns; after += stride {
		for _, from := range ways {
			got, err := runCase(f, c, crash{after: after, again: from.again, lags: from.lags, pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			at := fmt.Sprintf("%s: a crash after turn %d of %d, and a start from %s", c.At, after, want.turns, from.name)
			for _, problem := range got.Problems {
				if !strings.Contains(problem, ".txt:") { // that something of the case did not come about
					t.Fatalf("%s: %s\n%s", at, problem, got.Trace.Text())
				}
			}
			diff := cmp.Diff(want.rest, got.rest)
			otherwise = otherwise || diff != ""
			if diff != "" && endingOtherwise[c.ID] == "" {
				t.Fatalf("%s: at rest (-without +with the crash):\n%s\n%s", at, diff, got.Trace.Text())
			}
		}
	}
	if endingOtherwise[c.ID] != "" && !otherwise && !testing.Short() {
		t.Error("it always ends as without a crash: it needs no excuse")
	}
}
