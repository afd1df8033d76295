package invariant

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A snapshotData is the state of I64: the hash of each snapshot, by driver and handle.
type snapshotData struct {
	c      *Checker
	hashes map[[2]string]string
}

// beginSnapshotData checks, after driver calls and at rest, that a snapshot has the data that it was taken
// with. A snapshot that is deleted and taken again is another one.
func beginSnapshotData(c *Checker) watcher {
	d := &snapshotData{c, reuse.Map[[2]string, string](c.Reuse)}
	return watcher{
		call: func(r trace.Record) {
			if isSnapshotCall(r.Verb) {
				d.compare()
			}
		},
		settled: func(func(format string, a ...any)) { d.compare() },
	}
}

func (d *snapshotData) compare() {
	for b := range d.c.backends() {
		known, has := b.(SnapshotBackend)
		if !has {
			continue
		}
		now := map[[2]string]bool{}
		for _, s := range known.Snapshots() {
			key := [2]string{b.Driver(), s.Handle}
			now[key] = true
			if was, seen := d.hashes[key]; seen && was != s.Hash {
				d.c.report("I64", "snapshot %s of %s has other data than when it was taken", s.Handle, b.Driver())
			}
			d.hashes[key] = s.Hash
		}
		for key := range d.hashes {
			if key[0] == b.Driver() && !now[key] {
				delete(d.hashes, key)
			}
		}
	}
}

// beginSourceData checks, when a PersistentVolume is created for a claim with a source, that its volume is a
// copy of that source. It does not check the volumes of populators.
func beginSourceData(c *Checker) watcher {
	return watcher{
		commits: volumesOnly,
		commit: func(e fake.Commit) {
			v := e.After.(*corev1.PersistentVolume)
			if e.Type != "ADDED" || v.Annotations[provisionedBy] == "" || v.Spec.CSI == nil {
				return
			}
			claim := c.claimOfRef(v.Spec.ClaimRef)
			if claim == nil || claim.Spec.DataSource == nil {
				return
			}
			b := c.snapshotBackend(v.Spec.CSI.Driver)
			words, handle := c.sourceOf(claim)
			if b == nil || handle == "" || !c.holds(v) {
				return
			}
			switch is := b.Source(v.Spec.CSI.VolumeHandle); is {
			case handle:
			case "":
				c.report("I65", "volume %s for claim %s/%s is empty, not a copy of %s (%s)",
					v.Name, claim.Namespace, claim.Name, words, handle)
			default:
				c.report("I65", "volume %s for claim %s/%s is a copy of %s, not of %s (%s)",
					v.Name, claim.Namespace, claim.Name, is, words, handle)
			}
		},
	}
}
