package provisioner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
)

// Filters returns the filters for the caches of a provisioner with Config.Snapshots; caches returns these
// caches. They pass snapshots of which a claim in the cache is made, and those that have the
// provisioner's finalizer.
func Filters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{{
		Resource: snapshotapi.Snapshots.CommitName(),
		Match: func(_, obj fake.Object) bool {
			return obj != nil && (slices.Contains(obj.GetFinalizers(), snapshotFinalizer) || isRestored(caches(), obj))
		},
	}}
}

// isRestored reports whether a claim in the cache is made from a snapshot.
func isRestored(caches informers.SharedInformerFactory, snapshot fake.Object) bool {
	claims, err := caches.Core().V1().PersistentVolumeClaims().Lister().List(labels.Everything())
	return err == nil && slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase != corev1.ClaimBound && isFrom(claim, snapshotKind, snapshot.GetNamespace(), snapshot.GetName())
	})
}
