package invariant

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A sourceTracker is the state of I66: since which revisions sources have been read.
type sourceTracker struct {
	*Checker
	restoring map[string]int64 // Pending claims with a source, by namespace/name
	taking    map[string]int64 // snapshots that are not ready, by namespace/name
}

// beginSources checks that a controller does not remove
//
//   - the finalizer of a snapshot with a content while a Pending claim restores from it,
//   - the finalizer of a claim while a snapshot of it remains to be taken,
//
// if its cache had that claim or that snapshot.
func beginSources(c *Checker) watcher {
	t := &sourceTracker{c, reuse.Map[string, int64](c.Reuse), reuse.Map[string, int64](c.Reuse)}
	for _, obj := range c.API.List("persistentvolumeclaims") {
		t.claim("ADDED", obj.(*corev1.PersistentVolumeClaim), revisionOf(obj.GetResourceVersion()))
	}
	for _, obj := range c.API.List(snapshots) {
		t.snapshot("ADDED", obj, revisionOf(obj.GetResourceVersion()))
	}
	return watcher{
		commits: []string{"persistentvolumeclaims", snapshots},
		commit: func(e fake.Commit) {
			if claim, is := e.After.(*corev1.PersistentVolumeClaim); is {
				t.claim(string(e.Type), claim, e.Revision)
				return
			}
			t.snapshot(string(e.Type), e.After, e.Revision)
		},
		writes: []string{"persistentvolumeclaims", snapshotsTraced},
		write:  t.write,
	}
}

func (t *sourceTracker) claim(change string, claim *corev1.PersistentVolumeClaim, revision int64) {
	isRestoring := change != "DELETED" && claim.Status.Phase == corev1.ClaimPending && claim.Spec.DataSource != nil
	noteSince(t.restoring, claim.Namespace+"/"+claim.Name, isRestoring, revision)
}

func (t *sourceTracker) snapshot(change string, obj fake.Object, revision int64) {
	s := snapshotOf(obj)
	noteSince(t.taking, s.namespace+"/"+s.name, change != "DELETED" && !s.ready && !s.deleting, revision)
}

// noteSince keeps the revision since which something is so.
func noteSince(since map[string]int64, key string, is bool, revision int64) {
	_, was := since[key]
	switch {
	case !is:
		delete(since, key)
	case !was:
		since[key] = revision
	}
}

func (t *sourceTracker) write(r trace.Record) {
	if r.Before == nil || r.After == nil || !tookEffect(r) || !t.controllers.includes(r) {
		return
	}
	switch before := r.Before.(type) {
	case *corev1.PersistentVolumeClaim:
		if removedFinalizer(r, finalizerClaimSource) {
			t.releasedClaim(r, before)
		}
	case *fake.CustomObject:
		if removedFinalizer(r, finalizerSource) {
			t.releasedSnapshot(r, before)
		}
	}
}

// releasedClaim checks the removal of a claim's finalizer.
func (t *sourceTracker) releasedClaim(r trace.Record, claim *corev1.PersistentVolumeClaim) {
	for _, s := range t.allSnapshots() {
		key := s.namespace + "/" + s.name
		since, taking := t.taking[key]
		if taking && s.namespace == claim.Namespace && s.claim == claim.Name && t.knewAt(r, snapshotsTraced+"/"+key, since) {
			t.report("I66", "%s removed the finalizer of claim %s/%s although snapshot %s remains to be taken",
				r.Task, claim.Namespace, claim.Name, s.name)
			return
		}
	}
}

// releasedSnapshot checks the removal of a snapshot's finalizer.
func (t *sourceTracker) releasedSnapshot(r trace.Record, obj *fake.CustomObject) {
	s := snapshotOf(obj)
	if _, exists := t.contentNamed(s.content); !exists {
		return // nothing can be restored
	}
	for _, obj := range t.API.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		key := claim.Namespace + "/" + claim.Name
		since, restoring := t.restoring[key]
		if restoring && restoresFrom(claim, &s) && t.knewAt(r, "persistentvolumeclaims/"+key, since) {
			t.report("I66", "%s removed the finalizer of snapshot %s/%s although claim %s restores from it",
				r.Task, s.namespace, s.name, claim.Name)
			return
		}
	}
}

// knewAt reports whether the component of a write had a revision of an object, or a newer one, when it took
// up the key of the sync in which it wrote.
func (t *sourceTracker) knewAt(r trace.Record, object string, revision int64) bool {
	for s := range t.Log.Backward() {
		if s.Kind == trace.KindWork && s.Task == r.Task {
			return t.knew(r, s.Object, object, revision)
		}
	}
	return false
}
