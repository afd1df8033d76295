package invariant

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// beginReleased checks that a controller removes the finalizer of a content whose policy is Delete only
// while the content is being deleted, and after the driver has deleted its snapshot.
func beginReleased(c *Checker) watcher {
	return watcher{
		writes: []string{contentsTraced},
		write: func(r trace.Record) {
			obj, is := r.Before.(*fake.CustomObject)
			if !is || !tookEffect(r) || !c.controllers.includes(r) || !removedFinalizer(r, finalizerContent) {
				return
			}
			content := contentOf(obj)
			if content.policy != "Delete" {
				return
			}
			if !content.deleting {
				c.report("I67", "%s removed the finalizer of content %s, which is not being deleted", r.Task, content.name)
				return
			}
			if has, exists := c.snapshotOfContent(&content); exists {
				c.report("I67", "%s removed the finalizer of content %s, and the driver has its snapshot %s", r.Task, content.name, has.Handle)
			}
		},
	}
}

// A snapshotEnds is the state of L19: the driver's snapshots that contents have left there on purpose, by
// driver and handle.
type snapshotEnds struct {
	*Checker
	retained map[[2]string]bool
}

// beginSnapshotsEnd checks that, at rest, a snapshot of a bound claim is ready or has an error, that a
// snapshot or content that is being deleted is gone unless its claim restores or it has an error, that the
// driver has the snapshot of each ready content, and that a content names each snapshot that a VolumeSnapshot
// has requested, unless it was retained.
func beginSnapshotsEnd(c *Checker) watcher {
	s := &snapshotEnds{c, reuse.Map[[2]string, bool](c.Reuse)}
	return watcher{
		commits: []string{contents},
		commit: func(e fake.Commit) {
			if content := contentOf(e.After); e.Type == "DELETED" && content.policy == "Retain" {
				if has, exists := c.snapshotOfContent(&content); exists {
					s.retained[[2]string{content.driver, has.Handle}] = true
				}
			}
		},
		rest: s.rest,
	}
}

func (s *snapshotEnds) rest(report func(object, why string)) {
	snapshots, contents, taken := s.allSnapshots(), s.allContents(), s.taken()
	for i := range snapshots {
		if why := s.snapshotWaits(&snapshots[i]); why != "" {
			report(snapshotsTraced+"/"+snapshots[i].namespace+"/"+snapshots[i].name, why)
		}
	}
	for i := range contents {
		if why := contentWaits(&contents[i], snapshots, taken); why != "" {
			report(contentsTraced+"/"+contents[i].name, why)
		}
	}
	for b := range s.backends() {
		for _, one := range taken[b.Driver()] {
			named := slices.ContainsFunc(contents, func(o contentObject) bool { return o.driver == b.Driver() && o.names(one) })
			if !named && strings.HasPrefix(one.Name, snapshotNamePrefix) && !s.retained[[2]string{b.Driver(), one.Handle}] {
				report(b.Driver()+"/"+one.Handle, "must be deleted: no content names it")
			}
		}
	}
}

// taken returns the snapshots of the drivers of which they are known.
func (s *snapshotEnds) taken() map[string][]Snapshot {
	taken := map[string][]Snapshot{}
	for b := range s.backends() {
		if known, has := b.(SnapshotBackend); has {
			taken[b.Driver()] = known.Snapshots()
		}
	}
	return taken
}

// snapshotWaits returns what must become of a snapshot; "" if nothing.
func (s *snapshotEnds) snapshotWaits(one *snapshotObject) string {
	content, exists := s.contentNamed(one.content)
	switch {
	case one.deleting:
		if exists && (content.failed || s.isRestored(one)) {
			return ""
		}
		return "is being deleted, and must be gone"
	case one.ready, one.failed, one.claim == "":
		return ""
	}
	obj, has := s.API.Get("persistentvolumeclaims", one.namespace, one.claim)
	if !has || obj.(*corev1.PersistentVolumeClaim).Status.Phase != corev1.ClaimBound {
		return ""
	}
	return "must be ready: claim " + one.claim + " is bound"
}

// isRestored reports whether a Pending claim restores from a snapshot.
func (s *snapshotEnds) isRestored(one *snapshotObject) bool {
	return slices.ContainsFunc(s.API.List("persistentvolumeclaims"), func(obj fake.Object) bool {
		claim := obj.(*corev1.PersistentVolumeClaim)
		return claim.Status.Phase == corev1.ClaimPending && restoresFrom(claim, one)
	})
}

// contentWaits returns what must become of a content; "" if nothing. A content that a user deletes while its
// snapshot exists stays.
func contentWaits(one *contentObject, snapshots []snapshotObject, taken map[string][]Snapshot) string {
	ofDriver, known := taken[one.driver]
	switch {
	case one.ready && !one.deleting && known && !slices.ContainsFunc(ofDriver, one.names):
		return "must not be ready: the driver has no snapshot " + one.handle
	case !one.deleting, one.failed:
		return ""
	case slices.ContainsFunc(snapshots, func(o snapshotObject) bool { return o.uid == one.snapshotUID }):
		return ""
	}
	return "is being deleted, and must be gone"
}
