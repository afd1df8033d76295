package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sidecars/internal/driver"
)

// cloneFinalizer keeps a claim while its volume is being cloned.
const cloneFinalizer = snapshotapi.CloneFinalizer

// errSource is the error for an invalid source volume. Like upstream's, it contains no details.
var errSource = errors.New("claim in dataSource not bound or invalid")

// findSourceClaim returns the volume of a claim, and what adds the finalizer to the claim.
//
// Upstream: external-provisioner pkg/controller getPVCSource, setCloneFinalizer (6.3.0).
func (c *Controller) findSourceClaim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, from dataSource, provisioner, _ string,
) (*csispec.VolumeContentSource, func(context.Context) error, error) {
	source, err := c.claims.PersistentVolumeClaims(from.namespace).Get(from.name)
	if err != nil {
		return nil, nil, fmt.Errorf("error getting PVC %s (namespace %q) from api server: %v", from.name, claim.Namespace, err)
	}
	if err := checkSourceClaim(claim, source); err != nil {
		return nil, nil, err
	}
	volume, err := c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, source.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, errSource
	}
	if err := checkSourceVolume(claim, source, volume, provisioner); err != nil {
		return nil, nil, err
	}
	return &csispec.VolumeContentSource{Type: &csispec.VolumeContentSource_Volume{
		Volume: &csispec.VolumeContentSource_VolumeSource{VolumeId: volume.Spec.CSI.VolumeHandle},
	}}, func(ctx context.Context) error { return c.addCloneFinalizer(ctx, source) }, nil
}

// checkSourceClaim returns why a claim cannot be a source, or nil.
func checkSourceClaim(claim, source *corev1.PersistentVolumeClaim) error {
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	least := source.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case source.Status.Phase != corev1.ClaimBound:
		return fmt.Errorf("the PVC DataSource %s must have a status of Bound.  Got %v", source.Name, source.Status)
	case source.DeletionTimestamp != nil:
		return fmt.Errorf("the PVC DataSource %s is currently being deleted", source.Name)
	case source.Spec.StorageClassName == nil:
		return fmt.Errorf("the source PVC (%s) storageclass cannot be empty", source.Name)
	case claim.Spec.StorageClassName == nil:
		return fmt.Errorf("the requested PVC (%s) storageclass cannot be empty", claim.Name)
	case asked.Value() < least.Value():
		return fmt.Errorf("error, new PVC request must be greater than or equal in size to "+
			"the specified PVC data source, requested %v but source is %v",
			asked.Value(), least.Value())
	case source.Spec.VolumeName == "":
		return fmt.Errorf("volume name is empty in source PVC %s", source.Name)
	}
	return nil
}

// checkSourceVolume returns why a volume cannot be a source, or nil. It must be bound to the source
// claim, be of the same driver and have the same volume mode.
func checkSourceVolume(
	claim, source *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, provisioner string,
) error {
	ref := volume.Spec.ClaimRef
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != provisioner || ref == nil || ref.UID != source.UID ||
		ref.Namespace != source.Namespace || ref.Name != source.Name || volume.Status.Phase != corev1.VolumeBound {
		return errSource
	}
	switch target, origin := driver.IsBlock(claim.Spec.VolumeMode), driver.IsBlock(volume.Spec.VolumeMode); {
	case origin && !target:
		return errors.New("the source PVC and destination PVCs must have the same volume mode for cloning.  " +
			"Source is Block, but new PVC requested Filesystem")
	case target && !origin:
		return errors.New("the source PVC and destination PVCs must have the same volume mode for cloning.  " +
			"Source is Filesystem, but new PVC requested Block")
	}
	return nil
}

// addCloneFinalizer adds the clone finalizer to a claim.
func (c *Controller) addCloneFinalizer(ctx context.Context, source *corev1.PersistentVolumeClaim) error {
	if slices.Contains(source.Finalizers, cloneFinalizer) {
		return nil
	}
	source = source.DeepCopy()
	source.Finalizers = append(source.Finalizers, cloneFinalizer)
	_, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(source.Namespace).Update(ctx, source, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("keep claim %s while it is cloned: %v", source.Name, err)
	}
	return nil
}

// isHeldForClones reports whether a deleted claim has the clone finalizer.
func isHeldForClones(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, cloneFinalizer)
}

// releaseSource removes the clone finalizer from a deleted claim, unless a pending claim clones it.
// requeueSource queues the claim when that changes.
//
// Differs: pending clones are waited for; upstream retries with back-off.
//
// Upstream: external-provisioner pkg/controller CloningProtectionController (6.3.0).
func (c *Controller) releaseSource(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	all, err := c.claims.List(labels.Everything()) // clones may be in other namespaces
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(each *corev1.PersistentVolumeClaim) bool {
		return isFrom(each, claimKind, claim.Namespace, claim.Name) && each.Status.Phase == corev1.ClaimPending
	}) {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == cloneFinalizer })
	_, err = c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// requeueSource queues the source of a claim, which may wait for it: a deleted claim, or a snapshot.
func (c *Controller) requeueSource(claim *corev1.PersistentVolumeClaim) {
	s := dataSourceOf(claim)
	if s == nil {
		return
	}
	if s.kind == snapshotKind {
		c.requeueSnapshot(s.namespace, s.name)
		return
	}
	source, err := c.claims.PersistentVolumeClaims(s.namespace).Get(s.name)
	if err == nil && s.kind == claimKind && isHeldForClones(source) {
		c.claimQueue.Add(keyOf(source))
	}
}
