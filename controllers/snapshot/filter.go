package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
)

// Filters returns the filters of the controller's caches; caches returns these caches. They pass claims
// and classes only while a snapshot in the cache may wait for them, and no changes of a content that only
// its csi-snapshotter reads.
func Filters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{Resource: "persistentvolumeclaims", Match: func(old, obj fake.Object) bool {
			before, _ := old.(*corev1.PersistentVolumeClaim)
			after, _ := obj.(*corev1.PersistentVolumeClaim)
			return isHeldAgain(before, after) && isUnneeded(caches(), after) || isClaimChange(before, after) && isAwaited(caches(), func(s *snapshotapi.VolumeSnapshot) bool {
				return before != nil && concerns(s, before) || after != nil && concerns(s, after)
			}) || isGroupClaimChange(before, after) && isGroupAwaited(caches(), func(g *snapshotapi.VolumeGroupSnapshot) bool {
				return before != nil && before.Namespace == g.Namespace || after != nil && after.Namespace == g.Namespace
			})
		}},
		{Resource: snapshotapi.Classes.CommitName(), Match: func(_, _ fake.Object) bool {
			return isAwaited(caches(), func(*snapshotapi.VolumeSnapshot) bool { return true })
		}},
		{Resource: snapshotapi.Contents.CommitName(), Match: func(old, obj fake.Object) bool {
			if old == nil || obj == nil {
				return true
			}
			before, errBefore := snapshotapi.Contents.Parse(old)
			after, errAfter := snapshotapi.Contents.Parse(obj)
			return errBefore != nil || errAfter != nil || isContentChange(before, after)
		}},
		{Resource: snapshotapi.GroupClasses.CommitName(), Match: func(_, _ fake.Object) bool {
			return isGroupAwaited(caches(), func(*snapshotapi.VolumeGroupSnapshot) bool { return true })
		}},
		{Resource: snapshotapi.GroupContents.CommitName(), Match: func(old, obj fake.Object) bool {
			if old == nil || obj == nil {
				return true
			}
			before, errBefore := snapshotapi.GroupContents.Parse(old)
			after, errAfter := snapshotapi.GroupContents.Parse(obj)
			return errBefore != nil || errAfter != nil || isGroupContentChange(before, after)
		}},
	}
}

// isGroupAwaited is isAwaited for groups.
func isGroupAwaited(caches informers.SharedInformerFactory, match func(*snapshotapi.VolumeGroupSnapshot) bool) bool {
	groups, _, err := snapshotapi.GroupSnapshots.Cache(caches)
	return err == nil && slices.ContainsFunc(groups.List(""), func(g *snapshotapi.VolumeGroupSnapshot) bool {
		return (!g.IsReady() || g.Status.Error != nil || g.DeletionTimestamp != nil) && match(g)
	})
}

// isGroupClaimChange reports whether a change of a claim is one for which a group may wait.
func isGroupClaimChange(before, after *corev1.PersistentVolumeClaim) bool {
	return isClaimChange(before, after) || !maps.Equal(before.Labels, after.Labels)
}

// isGroupContentChange is isContentChange for the contents of groups.
func isGroupContentChange(before, after *snapshotapi.VolumeGroupSnapshotContent) bool {
	return before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status, after.Status) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!slices.Equal(before.Finalizers, after.Finalizers) ||
		!maps.Equal(ofOthers(before), ofOthers(after))
}

// isAwaited reports whether a snapshot in the cache matches that may wait for another object: it is not
// ready, or it is being deleted.
func isAwaited(caches informers.SharedInformerFactory, match func(*snapshotapi.VolumeSnapshot) bool) bool {
	snapshots, _, err := snapshotapi.Snapshots.Cache(caches)
	return err == nil && slices.ContainsFunc(snapshots.List(""), func(s *snapshotapi.VolumeSnapshot) bool {
		return (!s.IsReady() || s.Status.Error != nil || s.DeletionTimestamp != nil) && match(s)
	})
}

// isHeldAgain reports whether a claim in the cache gets the finalizer of the sources of snapshots.
func isHeldAgain(before, after *corev1.PersistentVolumeClaim) bool {
	return after != nil && slices.Contains(after.Finalizers, snapshotapi.ClaimSourceFinalizer) &&
		(before == nil || !slices.Contains(before.Finalizers, snapshotapi.ClaimSourceFinalizer))
}

// isUnneeded reports whether no snapshot of a claim in the cache remains to be taken.
func isUnneeded(caches informers.SharedInformerFactory, claim *corev1.PersistentVolumeClaim) bool {
	snapshots, _, err := snapshotapi.Snapshots.Cache(caches)
	return err == nil && !isSource(snapshots.List(claim.Namespace), claim.Name, "")
}

// isClaimChange reports whether a change of a claim is one for which a snapshot may wait.
func isClaimChange(before, after *corev1.PersistentVolumeClaim) bool {
	return before == nil || after == nil || before.UID != after.UID ||
		before.Status.Phase != after.Status.Phase || before.Spec.VolumeName != after.Spec.VolumeName
}

// isContentChange reports whether a change of a content concerns the controller.
func isContentChange(before, after *snapshotapi.VolumeSnapshotContent) bool {
	return before.UID != after.UID || !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status, after.Status) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!slices.Equal(before.Finalizers, after.Finalizers) ||
		!maps.Equal(ofOthers(before), ofOthers(after))
}

// ofOthers returns the annotations of a content except those of its csi-snapshotter.
func ofOthers(content metav1.Object) map[string]string {
	others := maps.Clone(content.GetAnnotations())
	delete(others, snapshotapi.BeingCreated)
	delete(others, snapshotapi.GroupBeingCreated)
	return others
}
