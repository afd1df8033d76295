// Package controller reconciles Databases: each replica has a claim and a pod.
package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	dbv1 "github.com/volsim/volsim/test/operator/api/v1"
)

const (
	// Finalizer keeps a Database until its pods and claims are removed.
	Finalizer = "db.example.com/cleanup"

	// DatabaseLabel and ReplicaLabel of claims and pods have the name of the Database and the number
	// of the replica.
	DatabaseLabel = "db.example.com/database"
	ReplicaLabel  = "db.example.com/replica"

	// OwnerIndex is the index of pods by the name of their Database.
	OwnerIndex = ".metadata.controller"
)

// A DatabaseReconciler reconciles Databases.
type DatabaseReconciler struct {
	client.Client
	APIReader client.Reader // not cached
	Recorder  events.EventRecorder

	Bug Bug // that is planted
}

// +kubebuilder:rbac:groups=db.example.com,resources=databases,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=db.example.com,resources=databases/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to a manager.
func (r *DatabaseReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, OwnerIndex, OwnerOf); err != nil {
		return err
	}
	var claimEvents predicate.Predicate = predicate.ResourceVersionChangedPredicate{}
	if r.Bug == DroppedEvent {
		claimEvents = predicate.GenerationChangedPredicate{} // BUG: claims have no generation
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&dbv1.Database{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, statusChanged))).
		Owns(&corev1.Pod{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(databaseOf),
			builder.WithPredicates(claimEvents)).
		Complete(r)
}

// statusChanged passes the events of status writes. Without them the status could stay as an old
// write has it: a later reconcile does not write the status that its stale cache already has.
var statusChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*dbv1.Database)
	after, is := e.ObjectNew.(*dbv1.Database)
	return ok && is && !equality.Semantic.DeepEqual(before.Status, after.Status)
}}

// OwnerOf returns the name of the Database that a pod belongs to, for OwnerIndex.
func OwnerOf(pod client.Object) []string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Database" {
		return []string{owner.Name}
	}
	return nil
}

// databaseOf returns the Database of a claim. Claims have no owner, so that they are never garbage.
func databaseOf(_ context.Context, claim client.Object) []reconcile.Request {
	name := claim.GetLabels()[DatabaseLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}}}
}

// Reconcile implements reconcile.Reconciler.
func (r *DatabaseReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	err := r.reconcile(ctx, req)
	if r.Bug == SwallowedConflict && apierrors.IsConflict(err) {
		return ctrl.Result{}, nil // BUG: the event of the conflicting write may be filtered
	}
	return ctrl.Result{}, err
}

func (r *DatabaseReconciler) reconcile(ctx context.Context, req ctrl.Request) error {
	var db dbv1.Database
	if err := r.Get(ctx, req.NamespacedName, &db); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !db.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, &db)
	}
	if controllerutil.AddFinalizer(&db, Finalizer) {
		if err := r.Update(ctx, &db); err != nil {
			return fmt.Errorf("add finalizer: %w", err)
		}
	}
	replicas, err := r.replicas(ctx, &db)
	if err != nil {
		return err
	}
	storage, err := r.grow(ctx, &db, replicas)
	err = errors.Join(err, r.scaleDown(ctx, &db, replicas), r.scaleUp(ctx, &db, replicas))
	return errors.Join(err, r.updateStatus(ctx, &db, replicas, storage))
}

// A replica is one replica of a Database. Either object may be missing.
type replica struct {
	claim *corev1.PersistentVolumeClaim
	pod   *corev1.Pod
}

// replicas returns the replicas of a Database, by number, as the cache has them.
func (r *DatabaseReconciler) replicas(ctx context.Context, db *dbv1.Database) (map[int]replica, error) {
	return r.list(ctx, r.Client, db, client.MatchingFields{OwnerIndex: db.Name})
}

// list returns the replicas of a Database, by number. The server has no index of pods.
func (r *DatabaseReconciler) list(
	ctx context.Context, from client.Reader, db *dbv1.Database, ofPods client.ListOption,
) (map[int]replica, error) {
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	namespace := client.InNamespace(db.Namespace)
	if err := from.List(ctx, &pods, namespace, ofPods); err != nil {
		return nil, err
	}
	if err := from.List(ctx, &claims, namespace, client.MatchingLabels{DatabaseLabel: db.Name}); err != nil {
		return nil, err
	}
	out := map[int]replica{}
	for i := range claims.Items {
		number, err := strconv.Atoi(claims.Items[i].Labels[ReplicaLabel])
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", claims.Items[i].Name, err)
		}
		if r.Bug == OrphanAfterCrash && db.Status.Claims[strconv.Itoa(number)] != claims.Items[i].Name {
			continue // BUG: a claim that is not recorded is not found again
		}
		out[number] = replica{claim: &claims.Items[i]}
	}
	for i := range pods.Items {
		number, err := strconv.Atoi(pods.Items[i].Labels[ReplicaLabel])
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pods.Items[i].Name, err)
		}
		out[number] = replica{claim: out[number].claim, pod: &pods.Items[i]}
	}
	return out, nil
}

// scaleDown removes the replicas that the spec does not want, the last one first. It returns when
// it must wait for an event.
func (r *DatabaseReconciler) scaleDown(ctx context.Context, db *dbv1.Database, replicas map[int]replica) error {
	verified := false
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(replicas))) {
		if number < int(*db.Spec.Replicas) {
			return nil
		}
		if !verified {
			if current, err := r.isCurrent(ctx, db); err != nil || !current {
				return err
			}
			verified = true
		}
		if gone, err := r.removePod(ctx, db, number, replicas[number].pod); err != nil || !gone {
			return err
		}
		if claim := replicas[number].claim; claim != nil && db.Spec.ClaimPolicy == dbv1.DeleteClaims {
			if err := r.deleteClaim(ctx, db, claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// removePod deletes the pod of a replica and reports whether it is gone.
func (r *DatabaseReconciler) removePod(
	ctx context.Context, db *dbv1.Database, number int, pod *corev1.Pod,
) (gone bool, err error) {
	if pod != nil && pod.DeletionTimestamp.IsZero() {
		err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		return false, client.IgnoreNotFound(err)
	}
	if r.Bug == ClaimBeforePod {
		return true, nil // BUG: the pod is terminating, or the cache has not seen it
	}
	if pod != nil {
		return false, nil
	}
	// The cache may not have seen the pod yet, so ask the server.
	err = r.APIReader.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: podName(db, number)}, &corev1.Pod{})
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// deleteClaim deletes a claim, with its data.
func (r *DatabaseReconciler) deleteClaim(
	ctx context.Context, db *dbv1.Database, claim *corev1.PersistentVolumeClaim,
) error {
	if !claim.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); err != nil {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Deleted the claim of a removed replica", "claim", claim.Name)
	r.Recorder.Eventf(db, claim, corev1.EventTypeNormal, "ClaimDeleted", "ScaleDown",
		"deleted claim %s of a removed replica", claim.Name)
	return nil
}

// scaleUp creates the claims and pods that the spec wants.
func (r *DatabaseReconciler) scaleUp(ctx context.Context, db *dbv1.Database, replicas map[int]replica) error {
	verified := false
	for number := range int(*db.Spec.Replicas) {
		this := replicas[number]
		if (this.claim == nil || this.pod == nil) && !verified {
			if current, err := r.isCurrent(ctx, db); err != nil || !current {
				return err
			}
			verified = true
		}
		if this.claim == nil {
			claim, err := r.createClaim(ctx, db, number)
			if err != nil {
				return fmt.Errorf("claim of replica %d: %w", number, err)
			}
			this.claim = claim
		} else if !this.claim.DeletionTimestamp.IsZero() {
			continue // the event of its deletion follows
		}
		if this.pod == nil {
			this.pod = newPod(db, number, this.claim.Name)
			if err := controllerutil.SetControllerReference(db, this.pod, r.Scheme()); err != nil {
				return err
			}
			if err := r.Create(ctx, this.pod); err != nil {
				return fmt.Errorf("pod of replica %d: %w", number, err)
			}
		}
		replicas[number] = this
	}
	return nil
}

// isCurrent reports whether the server has the spec of the Database that the cache has. After a
// restart the cache may be older than what the former process saw. Otherwise the event of the change
// follows.
func (r *DatabaseReconciler) isCurrent(ctx context.Context, db *dbv1.Database) (bool, error) {
	var live dbv1.Database
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(db), &live)
	return err == nil && live.UID == db.UID && live.Generation == db.Generation, client.IgnoreNotFound(err)
}

// createClaim creates the claim of a replica.
func (r *DatabaseReconciler) createClaim(
	ctx context.Context, db *dbv1.Database, number int,
) (*corev1.PersistentVolumeClaim, error) {
	claim := newClaim(db, number)
	switch r.Bug {
	case DoubleCreate:
		claim.GenerateName, claim.Name = claim.Name+"-", "" // BUG: a second claim does not conflict with the first
	case OrphanAfterCrash:
		return r.createRecordedClaim(ctx, db, number, claim)
	}
	return claim, r.Create(ctx, claim)
}

// createRecordedClaim creates a claim with a generated name, unless the Database has its name. It
// asks the server, so the cache does not matter.
func (r *DatabaseReconciler) createRecordedClaim(
	ctx context.Context, db *dbv1.Database, number int, claim *corev1.PersistentVolumeClaim,
) (*corev1.PersistentVolumeClaim, error) {
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(db), db); err != nil {
		return nil, err
	}
	replica := strconv.Itoa(number)
	if name := db.Status.Claims[replica]; name != "" {
		return claim, r.APIReader.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: name}, claim)
	}
	claim.GenerateName, claim.Name = claim.Name+"-", ""
	if err := r.Create(ctx, claim); err != nil {
		return nil, err
	}
	before := db.DeepCopy()
	if db.Status.Claims == nil {
		db.Status.Claims = map[string]string{}
	}
	db.Status.Claims[replica] = claim.Name
	return claim, r.Status().Patch(ctx, db, client.MergeFrom(before)) // BUG: after a crash before this, see replicas
}

// grow grows the claims to the size of the spec, and returns the size that all of them request, or
// nil if the cache lacks one.
func (r *DatabaseReconciler) grow(
	ctx context.Context, db *dbv1.Database, replicas map[int]replica,
) (*resource.Quantity, error) {
	if r.Bug == GrowthLost && db.Status.Storage != nil && db.Status.Storage.Equal(db.Spec.Storage) {
		return db.Status.Storage, nil // BUG: it was recorded when the cache lacked a claim
	}
	var smallest *resource.Quantity
	known := true
	for number := range int(*db.Spec.Replicas) {
		claim := replicas[number].claim
		if claim == nil {
			known = false
			continue
		}
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		// The event of the binding follows.
		if size.Cmp(db.Spec.Storage) < 0 && claim.Status.Phase == corev1.ClaimBound {
			before := claim.DeepCopy()
			size = db.Spec.Storage
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := r.Patch(ctx, claim, patch); err != nil {
				return nil, fmt.Errorf("grow claim %s: %w", claim.Name, err)
			}
		}
		if smallest == nil || size.Cmp(*smallest) < 0 {
			smallest = &size
		}
	}
	if !known && r.Bug != GrowthLost {
		return nil, nil
	}
	return smallest, nil
}

// updateStatus writes the status if it has changed.
func (r *DatabaseReconciler) updateStatus(
	ctx context.Context, db *dbv1.Database, replicas map[int]replica, storage *resource.Quantity,
) error {
	status := dbv1.DatabaseStatus{
		ObservedGeneration: db.Generation, Storage: storage, Claims: map[string]string{},
		Conditions: slices.Clone(db.Status.Conditions),
	}
	wanted, grown, removing := int(*db.Spec.Replicas), 0, 0
	for number, this := range replicas {
		if this.claim != nil {
			status.Claims[strconv.Itoa(number)] = this.claim.Name
		}
		if number >= wanted {
			if this.pod != nil || db.Spec.ClaimPolicy == dbv1.DeleteClaims {
				removing++
			}
			continue
		}
		if this.claim == nil {
			continue
		}
		if size := this.claim.Status.Capacity[corev1.ResourceStorage]; size.Cmp(db.Spec.Storage) >= 0 {
			grown++
		}
		if this.pod != nil && this.pod.DeletionTimestamp.IsZero() && this.pod.Status.Phase == corev1.PodRunning {
			status.ReadyReplicas++
		}
	}
	ready := metav1.Condition{
		Type: dbv1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: db.Generation,
	}
	ready.Message = fmt.Sprintf("%d of %d replicas run, %d claims have %s, %d replicas are being removed",
		status.ReadyReplicas, wanted, grown, db.Spec.Storage.String(), removing)
	if int(status.ReadyReplicas) == wanted && grown == wanted && removing == 0 {
		if is, err := r.isReady(ctx, db); err != nil || !is {
			return err // the event follows
		}
		ready.Status, ready.Reason = metav1.ConditionTrue, "AllReplicasReady"
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(status, db.Status) {
		return nil
	}
	db.Status = status
	return r.Status().Update(ctx, db)
}

// isReady reports whether the server has the replicas of the spec, running, and no others. The cache
// may not have seen what an earlier reconcile created and deleted.
func (r *DatabaseReconciler) isReady(ctx context.Context, db *dbv1.Database) (bool, error) {
	if db.Status.ObservedGeneration == db.Generation && meta.IsStatusConditionTrue(db.Status.Conditions, dbv1.ConditionReady) {
		return true, nil // asked before
	}
	live, err := r.list(ctx, r.APIReader, db, client.MatchingLabels{DatabaseLabel: db.Name})
	if err != nil {
		return false, err
	}
	running := 0
	for number, this := range live {
		wanted := number < int(*db.Spec.Replicas)
		if this.pod != nil && (!wanted || !this.pod.DeletionTimestamp.IsZero() || this.pod.Status.Phase != corev1.PodRunning) ||
			this.pod == nil && (wanted || db.Spec.ClaimPolicy == dbv1.DeleteClaims) {
			return false, nil
		}
		if wanted {
			running++
		}
	}
	return running == int(*db.Spec.Replicas), nil
}

// finalize removes the pods of a Database, then its claims, and then the finalizer.
func (r *DatabaseReconciler) finalize(ctx context.Context, db *dbv1.Database) error {
	if !controllerutil.ContainsFinalizer(db, Finalizer) {
		return nil
	}
	if current, err := r.isCurrent(ctx, db); err != nil || !current {
		return err // the claims may be those of another Database with this name
	}
	// What the cache has not seen would be leaked, so ask the server.
	reader := r.APIReader
	if r.Bug == LeakAtDeletion {
		reader = r.Client // BUG: the cache may lack the claims that were created last
	}
	var pods corev1.PodList
	namespace, ofThis := client.InNamespace(db.Namespace), client.MatchingLabels{DatabaseLabel: db.Name}
	if err := reader.List(ctx, &pods, namespace, ofThis); err != nil {
		return err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp.IsZero() {
			if err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	if len(pods.Items) > 0 {
		return nil // the events of their deletion follow
	}
	if db.Spec.ClaimPolicy == dbv1.DeleteClaims {
		var claims corev1.PersistentVolumeClaimList
		if err := reader.List(ctx, &claims, namespace, ofThis); err != nil {
			return err
		}
		for i := range claims.Items {
			if err := r.deleteClaim(ctx, db, &claims.Items[i]); err != nil {
				return err
			}
		}
		if len(claims.Items) > 0 {
			return nil // the events of their deletion follow
		}
	}
	controllerutil.RemoveFinalizer(db, Finalizer)
	return client.IgnoreNotFound(r.Update(ctx, db))
}
