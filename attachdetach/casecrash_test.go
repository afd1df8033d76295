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
	again int // number of steps until a second crash; 0 for none
	lags  []lag
	pool  *sim.Pool // nil for a separate pool
}

// due reports whether the controller crashes after a step.
func (c crash) due(turn int) bool { return turn == c.after || c.again > 0 && turn == c.after+c.again }

// lag is the number of events by which a first list is stale.
type lag struct {
	resource string
	events   int
}

// starts are the kinds of restart.
var starts = []struct {
	name  string
	again int
	lags  []lag
}{
	{"fresh lists", 0, nil},
	{"a stale list of attachments", 0, []lag{{"volumeattachments", 2}}},
	{"stale lists of nodes and pods", 0, []lag{{"nodes", 2}, {"pods", 2}}},
	{"only stale lists, twice", 2, []lag{
		{"csidrivers", 3},
		{"nodes", 3},
		{"persistentvolumeclaims", 3},
		{"persistentvolumes", 3},
		{"pods", 3},
		{"volumeattachments", 3},
	}},
}

// divergentCases are the cases that may have another final state after a crash, with the reason.
// Safety is still checked.
var divergentCases = map[string]string{
	"pictures-1":     "the PersistentVolume was deleted: once the node's status is written, the VolumeAttachment's volume is unknown",
	"recovery-1":     "the same, as in upstream; recovery-1+ has PersistentVolumes",
	"recovery-2":     "the same",
	"recovery-3":     "the same",
	"recovery-4":     "the same",
	"recovery-5+":    "the same",
	"multi-4":        "a single-node volume is on two nodes: once neither is certain, each waits for the other",
	"reconciler-7++": "two nodes wait for a single-node volume, and either may get it",
	"actual-33":      "a device path is only in the node's status, and an uncertain attachment has none",
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
		t.Fatal("the controller runs no step")
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
			at := fmt.Sprintf("%s: a crash after turn %d of %d, and a start from %s",
				c.At, after, want.turns, from.name)
			for _, problem := range got.Problems {
				if !strings.Contains(problem, ".txt:") { // a condition of the case did not occur
					t.Fatalf("%s: %s\n%s", at, problem, got.Trace.Text())
				}
			}
			diff := cmp.Diff(want.rest, got.rest)
			otherwise = otherwise || diff != ""
			if diff != "" && divergentCases[c.ID] == "" {
				t.Fatalf("%s: at rest (-without +with the crash):\n%s\n%s", at, diff, got.Trace.Text())
			}
		}
	}
	if divergentCases[c.ID] != "" && !otherwise && !testing.Short() {
		t.Error("the final state never differs: remove it from divergentCases")
	}
}
