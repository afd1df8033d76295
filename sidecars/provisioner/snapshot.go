package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
)

const (
	// snapshotFinalizer keeps a snapshot while a volume is made from it. The finalizer of the snapshot
	// controller, which has a similar name, is another one.
	snapshotFinalizer = snapshotapi.ProvisionerFinalizer

	// modeChangeAnnotation of a content allows volumes of another mode to be made from it.
	modeChangeAnnotation = "snapshot.storage.kubernetes.io/allow-volume-mode-change"
)

// snapshots is what the provisioner knows of snapshots. It is nil if their kinds are not served.
type snapshots struct {
	cache customresource.Cache[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot]
	queue *sim.Queue[cache.ObjectName] // snapshots from which the finalizer may be removed
}

// watchSnapshots retries claims whose snapshot changes, and removes the finalizer from snapshots that
// are no longer used.
func (c *Controller) watchSnapshots() error {
	known, informer, err := snapshotapi.Snapshots.Cache(c.cfg.Informers)
	if err != nil {
		return fmt.Errorf("provisioner: %w", err)
	}
	c.snapshots = &snapshots{cache: known, queue: sim.NewQueue[cache.ObjectName](c.cfg.Process, c.cfg.queue("snapshots"))}
	changed := func(obj any) {
		snapshot, err := snapshotapi.Snapshots.Parse(obj)
		if err != nil {
			return
		}
		c.requeueUnplaced(func(claim *corev1.PersistentVolumeClaim) bool {
			return isFrom(claim, snapshotKind, snapshot.Namespace, snapshot.Name)
		})
		c.requeueSnapshot(snapshot.Namespace, snapshot.Name)
	}
	c.snapshots.queue.Work(c.releaseSnapshot)
	return onChange(informer, changed)
}

// onChange registers a handler of additions and updates.
func onChange(informer cache.SharedIndexInformer, handle func(obj any)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, obj any) { handle(obj) },
	})
	return err
}

// requeueSnapshot queues a snapshot that may have an unneeded finalizer.
func (c *Controller) requeueSnapshot(namespace, name string) {
	if c.snapshots == nil {
		return
	}
	if s := c.snapshots.cache.Get(namespace, name); s != nil && slices.Contains(s.Finalizers, snapshotFinalizer) {
		c.snapshots.queue.Add(cache.NewObjectName(namespace, name))
	}
}

// findSourceSnapshot returns the snapshot of the driver that is behind a snapshot, and what adds the
// finalizer to the latter.
//
// Upstream: external-provisioner pkg/controller getSnapshotSource, setSnapshotFinalizer (6.3.0).
func (c *Controller) findSourceSnapshot(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, from dataSource, provisioner, class string,
) (*csispec.VolumeContentSource, func(context.Context) error, error) {
	if c.cfg.Dynamic == nil {
		return nil, nil, fmt.Errorf("error getting snapshot %s from api server: no client", from.name)
	}
	snapshot, err := snapshotapi.Snapshots.Client(c.cfg.Dynamic).Get(ctx, from.namespace, from.name)
	if err != nil {
		return nil, nil, fmt.Errorf("error getting snapshot %s from api server: %v", from.name, err)
	}
	if snapshot.DeletionTimestamp != nil && !slices.Contains(snapshot.Finalizers, snapshotFinalizer) {
		return nil, nil, fmt.Errorf("snapshot %s is being deleted", from.name)
	}
	if snapshot.Status == nil || snapshot.Status.BoundVolumeSnapshotContentName == nil {
		return nil, nil, fmt.Errorf("snapshot %s not bound", from.name)
	}
	name := *snapshot.Status.BoundVolumeSnapshotContentName
	content, err := snapshotapi.Contents.Client(c.cfg.Dynamic).Get(ctx, "", name)
	if err != nil {
		return nil, nil, fmt.Errorf("error getting snapshotcontent %s for snapshot %s", name, from.name)
	}
	if err := checkSourceContent(snapshot, content, provisioner, class); err != nil {
		return nil, nil, err
	}
	if err := checkRestore(claim, snapshot); err != nil {
		return nil, nil, err
	}
	if err := c.checkModeChange(claim, content); err != nil {
		return nil, nil, err
	}
	return &csispec.VolumeContentSource{Type: &csispec.VolumeContentSource_Snapshot{
		Snapshot: &csispec.VolumeContentSource_SnapshotSource{SnapshotId: *content.Status.SnapshotHandle},
	}}, func(ctx context.Context) error { return c.addSnapshotFinalizer(ctx, snapshot) }, nil
}

// checkSourceContent returns why the content of a snapshot cannot be a source, or nil.
func checkSourceContent(
	snapshot *snapshotapi.VolumeSnapshot, content *snapshotapi.VolumeSnapshotContent, provisioner, class string,
) error {
	ref := content.Spec.VolumeSnapshotRef
	switch {
	case ref.UID != snapshot.UID || ref.Namespace != snapshot.Namespace || ref.Name != snapshot.Name:
		return fmt.Errorf("snapshotcontent %s for snapshot %s is bound to a different snapshot", content.Name, snapshot.Name)
	case content.Spec.Driver != provisioner:
		return fmt.Errorf("snapshotcontent %s for snapshot %s is not handled by CSI driver of StorageClass %s",
			content.Name, snapshot.Name, class)
	case !ptr.Deref(snapshot.Status.ReadyToUse, false):
		return fmt.Errorf("snapshot %s is not Ready", snapshot.Name)
	case content.Status == nil || content.Status.SnapshotHandle == nil:
		return fmt.Errorf("snapshot handle %s is not available", snapshot.Name)
	}
	return nil
}

// checkRestore returns an error if a claim requests less than a snapshot needs.
func checkRestore(claim *corev1.PersistentVolumeClaim, snapshot *snapshotapi.VolumeSnapshot) error {
	least := snapshot.Status.RestoreSize
	if least == nil {
		return nil
	}
	requested, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return fmt.Errorf("error getting capacity for PVC %s when creating snapshot %s", claim.Name, snapshot.Name)
	}
	if requested.Value() < least.Value() {
		return fmt.Errorf("requested volume size %d is less than the size %d for the source snapshot %s",
			requested.Value(), least.Value(), snapshot.Name)
	}
	return nil
}

// checkModeChange returns an error if a claim has another volume mode than the source of a snapshot,
// and the content does not allow it.
func (c *Controller) checkModeChange(claim *corev1.PersistentVolumeClaim, content *snapshotapi.VolumeSnapshotContent) error {
	was, is := content.Spec.SourceVolumeMode, claim.Spec.VolumeMode
	if c.cfg.AllowVolumeModeConversion || was == nil || is == nil || *was == *is {
		return nil
	}
	refused := fmt.Sprintf("requested volume %s/%s modifies the mode of the source volume but does not have permission to do so. ",
		claim.Namespace, claim.Name)
	text, ok := content.Annotations[modeChangeAnnotation]
	if !ok {
		return errors.New(refused + modeChangeAnnotation + " annotation is not present on snapshotcontent " + content.Name)
	}
	switch allowed, err := strconv.ParseBool(text); {
	case err != nil:
		return fmt.Errorf("%sfailed to convert %s annotation value to boolean with error: %v", refused, modeChangeAnnotation, err)
	case !allowed:
		return errors.New(refused + modeChangeAnnotation + " is set to false on snapshotcontent " + content.Name)
	}
	return nil
}

// addSnapshotFinalizer adds the finalizer to a snapshot.
func (c *Controller) addSnapshotFinalizer(ctx context.Context, snapshot *snapshotapi.VolumeSnapshot) error {
	if slices.Contains(snapshot.Finalizers, snapshotFinalizer) {
		return nil
	}
	snapshot.Finalizers = append(snapshot.Finalizers, snapshotFinalizer)
	_, err := snapshotapi.Snapshots.Client(c.cfg.Dynamic).Update(ctx, snapshot)
	if err != nil && !apierrors.IsForbidden(err) {
		return errors.New(err.Error()) // no NotFound error, which is reserved for nodes
	}
	return nil
}

// releaseSnapshot removes the finalizer from a snapshot, unless a volume is, or will be, made from it.
// claimChanged, claimGone and create queue the snapshot when that changes.
//
// Differs: the finalizer stays while another claim is restored from the snapshot, or while the request
// for a deleted claim may still have its effect; upstream removes it once any volume was made from
// it. Unneeded finalizers are removed when a claim changes; upstream looks for them every five minutes.
//
// Upstream: external-provisioner pkg/controller removeSnapshotFinalizer, SnapshotFinalizerController
// (6.3.0).
func (c *Controller) releaseSnapshot(ctx context.Context, key cache.ObjectName) error {
	snapshot := c.snapshots.cache.Get(key.Namespace, key.Name)
	if snapshot == nil || !slices.Contains(snapshot.Finalizers, snapshotFinalizer) || c.isRestored(key.Namespace, key.Name) {
		return nil
	}
	snapshot.Finalizers = slices.DeleteFunc(snapshot.Finalizers, func(f string) bool { return f == snapshotFinalizer })
	_, err := snapshotapi.Snapshots.Client(c.cfg.Dynamic).Update(ctx, snapshot)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// isRestored reports whether a volume is, or will be, made from a snapshot.
func (c *Controller) isRestored(namespace, name string) bool {
	for _, a := range c.background {
		if isFrom(a.claim, snapshotKind, namespace, name) {
			return true
		}
	}
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		panic("provisioner: list claims: " + err.Error())
	}
	return slices.ContainsFunc(all, func(claim *corev1.PersistentVolumeClaim) bool {
		return isFrom(claim, snapshotKind, namespace, name) && claim.Spec.VolumeName == "" && !c.isProvisioned(claim.UID)
	})
}
