package snapdiff

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/test/conformance/histories"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/cases.txt from upstream's results")

// Acts of the cases.
var (
	gold       = createClass{"gold", true, driverName, snapshotapi.Delete, noSecret}
	kept       = createClass{"gold", true, driverName, snapshotapi.Retain, noSecret}
	locked     = createClass{"gold", true, driverName, snapshotapi.Delete, oneSecret}
	data       = createClaim{name: "data", volume: own}
	one        = createSnapshot{name: "one", claim: "data"}
	oneOfGold  = createSnapshot{name: "one", claim: "data", class: "gold"}
	oneOfOld   = createSnapshot{name: "one", content: "old-1"}
	old        = createContent{name: "old-1", snapshot: "one", handle: oldHandle, policy: snapshotapi.Delete, driver: driverName}
	restores   = createClaim{name: "restored", volume: unbound, restores: "one"}
	removesOne = deleteSnapshot{"one"}
)

// with returns a variant of the content.
func (c createContent) with(change func(c *createContent)) createContent {
	change(&c)
	return c
}

// cases are short histories: each of upstream's decisions about snapshots and contents.
//
// Upstream: external-snapshotter pkg/common-controller snapshot_create_test.go, snapshot_update_test.go,
// snapshot_delete_test.go, snapshotclass_test.go, snapshot_finalizer_test.go; pkg/sidecar-controller
// content_create_test.go, snapshot_delete_test.go (8.7.0).
var cases = []struct {
	name string
	acts []act
}{
	{"the default class", []act{gold, data, one}},
	{"a class", []act{gold, data, oneOfGold}},
	{"no default class", []act{data, one}},
	{"two default classes", []act{gold, createClass{"iron", true, driverName, snapshotapi.Delete, noSecret}, data, one}},
	{"two default classes, then one", []act{gold, createClass{"iron", true, driverName, snapshotapi.Delete, noSecret}, data, one, setDefault{"iron", false}}},
	{"the default class is of another driver", []act{createClass{"gold", true, otherDriver, snapshotapi.Delete, noSecret}, data, one}},
	{"a class of another driver", []act{createClass{"gold", false, otherDriver, snapshotapi.Delete, noSecret}, data, oneOfGold}},
	{"a class that does not exist", []act{data, oneOfGold}},
	{"a class that is created later", []act{data, oneOfGold, gold}},
	{"no claim", []act{gold, oneOfGold}},
	{"a claim that is created later", []act{gold, one, data}},
	{"a claim that is not bound", []act{gold, createClaim{name: "data", volume: unbound}, oneOfGold}},
	{"a claim that is bound later", []act{gold, createClaim{name: "data", volume: unbound}, oneOfGold, bind{"data", own}}},
	{"a claim without its volume", []act{gold, createClaim{name: "data", volume: absent}, oneOfGold}},
	{"a volume of no driver", []act{gold, createClaim{name: "data", volume: local}, oneOfGold}},
	{"a volume of no driver, default class", []act{gold, createClaim{name: "data", volume: local}, one}},
	{"a volume of another driver", []act{gold, createClaim{name: "data", volume: foreign}, oneOfGold}},
	{"a block volume", []act{gold, createClaim{name: "data", volume: block}, one}},
	{"a secret", []act{locked, setSecret{true}, data, one, removesOne}},
	{"no secret of the name", []act{locked, data, one}},
	{"a secret that is created later", []act{locked, data, one, setSecret{true}}},
	{"a secret that is gone at the deletion", []act{locked, setSecret{true}, data, one, setSecret{false}, removesOne}},
	{"a secret without namespace", []act{createClass{"gold", true, driverName, snapshotapi.Delete, badSecret}, data, one}},
	{"the driver refuses", []act{gold, data, setDriver{callCreate, "InvalidArgument"}, one}},
	{"the driver refuses, the snapshot is deleted", []act{gold, data, setDriver{callCreate, "InvalidArgument"}, one, removesOne}},
	{"the driver is busy", []act{gold, data, setDriver{callCreate, "Aborted"}, one}},
	{"the driver is busy, the snapshot is deleted", []act{gold, data, setDriver{callCreate, "Aborted"}, one, removesOne}},
	{"the driver is busy, the snapshot is deleted, then it answers", []act{gold, data, setDriver{callCreate, "Aborted"}, one, removesOne, setDriver{callCreate, ""}}},
	{"a lost answer", []act{gold, data, setDriver{callCreate, "after.DeadlineExceeded"}, one, removesOne, setDriver{callCreate, ""}}},
	{"the driver recovers", []act{gold, data, setDriver{callCreate, "Internal"}, one, setDriver{callCreate, ""}}},
	{"not ready", []act{gold, data, setDriver{keyReady, "false"}, one}},
	{"not ready, then ready", []act{gold, data, setDriver{keyReady, "false"}, one, setDriver{keyReady, "true"}}},
	{"not ready, deleted", []act{gold, data, setDriver{keyReady, "false"}, one, removesOne}},
	{"an existing snapshot", []act{old, oneOfOld}},
	{"an existing snapshot whose content is created later", []act{oneOfOld, old}},
	{"an existing snapshot with a class", []act{gold, old, createSnapshot{name: "one", content: "old-1", class: "gold"}}},
	{"an existing snapshot of a driver without it", []act{old.with(func(c *createContent) { c.handle = "lost" }), oneOfOld}},
	{"an existing snapshot of another driver", []act{old.with(func(c *createContent) { c.driver = otherDriver }), oneOfOld}},
	{"a content of another snapshot", []act{old.with(func(c *createContent) { c.snapshot = "two" }), oneOfOld}},
	{"a content of another UID", []act{old.with(func(c *createContent) { c.uid = "another" }), oneOfOld}},
	{"a content of a volume", []act{old.with(func(c *createContent) { c.ofVolume = true }), oneOfOld}},
	{"a list that fails", []act{setDriver{callList, "Internal"}, old, oneOfOld}},
	{"Delete", []act{gold, data, one, removesOne}},
	{"Delete, and the driver fails", []act{gold, data, one, setDriver{callDelete, "Internal"}, removesOne}},
	{"Retain", []act{kept, data, one, removesOne}},
	{"Delete becomes Retain", []act{gold, data, one, edit{0, setRetain}, removesOne}},
	{"Retain becomes Delete", []act{kept, data, one, edit{0, setDelete}, removesOne}},
	{"Retain becomes Delete after the deletion", []act{kept, data, one, removesOne, edit{0, setDelete}}},
	{"an existing snapshot is deleted", []act{old, oneOfOld, removesOne}},
	{"deleted while a claim restores", []act{gold, data, one, restores, removesOne}},
	{"deleted while a claim restores, which is bound", []act{gold, data, one, restores, removesOne, bind{"restored", own}}},
	{"deleted while a claim restores, which is deleted", []act{gold, data, one, restores, removesOne, deleteClaim{"restored"}}},
	{"its class is deleted first", []act{gold, data, one, deleteClass{"gold"}, removesOne}},
	{"the content is deleted first", []act{gold, data, one, edit{0, remove}}},
	{"the content is deleted first, then the snapshot", []act{gold, data, one, edit{0, remove}, removesOne}},
	{"the content is lost", []act{gold, data, one, edit{0, remove}, edit{0, release}}},
	{"a content that belongs to no snapshot is deleted", []act{old, edit{0, remove}}},
	{"the finalizer of a content is removed", []act{gold, data, one, edit{0, release}}},
	{"the claim is deleted while its snapshot is taken", []act{gold, data, setDriver{keyReady, "false"}, one, deleteClaim{"data"}}},
	{"the claim is deleted while its snapshot is taken, which ends", []act{gold, data, setDriver{keyReady, "false"}, one, deleteClaim{"data"}, setDriver{keyReady, "true"}}},
	{"the claim is deleted while its snapshot is taken, which is deleted", []act{gold, data, setDriver{callCreate, "Internal"}, one, deleteClaim{"data"}, removesOne}},
	{"restarted while a snapshot is taken", []act{gold, data, setDriver{keyReady, "false"}, one, restart{Meanwhile: setDriver{keyReady, "true"}}}},
	{"restarted while a claim is deleted", []act{gold, data, setDriver{keyReady, "false"}, one, restart{Meanwhile: deleteClaim{"data"}}, setDriver{keyReady, "true"}}},
	{"restarted while a snapshot is deleted", []act{gold, data, one, restart{Meanwhile: removesOne}}},
}

// TestCases executes each case with ours, and with upstream's controllers until they do the same, at most as
// often as a drawn history: upstream's sidecar may miss its own last write of a content. testdata/cases.txt
// has the results of upstream's: the lines that the last act has added and removed.
func TestCases(t *testing.T) {
	texts := make([]string, len(cases))
	t.Run("case", func(t *testing.T) {
		for i, c := range cases {
			t.Run(strings.ReplaceAll(c.name, ", ", ","), func(t *testing.T) {
				t.Parallel()
				var h history
				for _, a := range c.acts {
					h = append(h, step{Act: a})
				}
				all := both.RunOurs(h, nil, nil).States
				ours := all[len(all)-1]
				var states []histories.State
				var theirs histories.State
				for range histories.DefaultLimits.First.Upstream {
					states = both.RunUpstream(t, h, nil).States
					if theirs = states[len(states)-1]; slices.Equal(theirs, ours) {
						break
					}
				}
				if d := (delta{History: h, Upstream: theirs, Ours: ours}); len(d.Lines()) > 0 {
					t.Errorf("(-upstream +ours):\n%s", d)
				}
				lines := theirs
				if n := len(states); n > 1 {
					lines = slices.Clone(theirs.Without(states[n-2]))
					for _, line := range states[n-2].Without(theirs) {
						lines = append(lines, "no more: "+line)
					}
				}
				texts[i] = fmt.Sprintf("row %s\n\t%s\n", c.name, strings.Join(lines, "\n\t"))
			})
		}
	})
	got := strings.Join(texts, "\n")
	golden := filepath.Join("testdata", "cases.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" && !t.Failed() {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}
