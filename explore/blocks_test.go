package explore

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// blockWorlds are so small that all of their states can be visited without any reduction.
var blockWorlds = []struct {
	name, text string
	restarts   bool
}{
	{"one claim", "components: pvcontroller\nuser a\n  create volume v 1Gi\nuser b\n  create claim c 1Gi class=\n", false},
	{"two claims", "components: pvcontroller\nuser a\n  create volume v 1Gi\n  create claim c 1Gi class=\n  create claim d 1Gi class=\n", false},
	{"a claim that goes", "components: pvcontroller, pvcprotection\nuser a\n  create claim c 1Gi class=\n  delete claim c\n", false},
	{"a volume that goes", "components: pvcontroller, pvprotection\nuser a\n  create volume v 1Gi\n  delete volume v\n", false},
	{"a claim that a pod uses", tinyWorlds[2].text, true},
	{"one claim, a crash", "components: pvcontroller\nuser a\n  create volume v 1Gi\n  create claim c 1Gi class=\n", true},
	{"a controller that crashes", tinyWorlds[3].text, false},
	{"a second controller", tinyWorlds[4].text, false},
	{"a directory", "components: pvcontroller\nuser a\n  create class dirs provisioner=kubernetes.io/host-path\n" +
		"  create claim c 1Gi class=dirs\n", false},
}

// TestBlocksLoseNothing compares two searches of all orders of events. One makes all steps from each
// state. The other leaves out orders of steps that do not depend on each other, and orders of local
// steps. Both must make the same requests in the same states of the API server with the same results,
// and end in the same states.
func TestBlocksLoseNothing(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range blockWorlds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var seen [2]map[uint64]string
			var schedules, states [2]int
			for i, reduced := range []bool{false, true} {
				seen[i] = map[uint64]string{}
				e := beginSearch(t, tt.name, "ends: differ\n"+tt.text, Config{
					Strategy: Exhaustive, Count: 1_000_000, Restarts: tt.restarts,
					Watch: func(c *cluster.Cluster) { watchRequests(c, seen[i]) },
				})
				kinds := []mishap{noMishap}
				if tt.restarts {
					kinds = append(kinds, faultOrCrash)
				}
				for _, kind := range kinds {
					o := newOrders(e, kind)
					o.blocks, o.unreduced = reduced, !reduced
					if err := o.all(); err != nil || e.report.Failure != nil {
						t.Fatal(err, e.report.Failure)
					}
					schedules[i], states[i] = e.report.Schedules, states[i]+len(o.visited)
				}
			}
			t.Logf("%d requests; %d schedules and %d states, reduced %d and %d", len(seen[0]), schedules[0], states[0], schedules[1], states[1])
			for _, number := range slices.Sorted(maps.Keys(seen[0])) {
				if _, found := seen[1][number]; !found {
					t.Errorf("lost: %s", seen[0][number])
				}
			}
			if len(seen[1]) != len(seen[0]) {
				t.Errorf("%d requests, want %d", len(seen[1]), len(seen[0]))
			}
			if schedules[1] > schedules[0] {
				t.Errorf("%d schedules, without reduction %d", schedules[1], schedules[0])
			}
		})
	}
}

// watchRequests adds each request and driver call of a world to seen: who makes it, what it finds, and,
// unless it only reads, the state of the API server.
func watchRequests(c *cluster.Cluster, seen map[uint64]string) {
	k := newKnowledge(c)
	c.Trace().Watch(func(r trace.Record) {
		resource, _, _ := strings.Cut(r.Object, "/")
		switch {
		case resource == resourceEvents:
			return
		case r.Kind != trace.KindAPI && r.Kind != trace.KindDriver && r.Kind != trace.KindEvent && r.Kind != trace.KindWait:
			return
		}
		what := r.Task + " " + r.Action.String()
		n := mix(0, what)
		if r.Err != nil {
			n = mix(n, r.Err.Error())
		}
		switch {
		case r.Verb == "get":
			n += k.revisions[versionOf(r)].content
		case r.Verb == "list":
			for name, o := range k.objects {
				if strings.HasPrefix(name, resource+"/") {
					n += mix(o.chain, name)
				}
			}
		default:
			n += k.objectSum + finish(k.devices)
		}
		seen[n] = what
	})
}
