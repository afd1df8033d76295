package provisioner

import (
	"context"
	"errors"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// cleanupsMax is how often deleting a volume that turned out too small is tried at once.
//
// Upstream: external-provisioner pkg/controller deleteVolumeRetryCount.
const cleanupsMax = 5

// addPlacement completes what the driver is to be asked for with what the volume is made from, and where it is to be usable.
func (c *Controller) addPlacement(ctx context.Context, a *attempt) (err error) {
	if a.request.VolumeContentSource, err = c.findSource(ctx, a.claim, a.class.Provisioner); err != nil {
		return err
	}
	a.request.AccessibilityRequirements, err = c.topology.requirement(a.claim, a.class.AllowedTopologies)
	if err != nil && !apierrors.IsNotFound(err) {
		err = fmt.Errorf("error generating accessibility requirements: %w", err)
	}
	return err
}

// placementFailed decides how an attempt goes on before the driver was asked: a node that is gone is given back to the scheduler.
//
// Upstream: external-provisioner pkg/controller prepareProvision (6.3.0).
func (c *Controller) placementFailed(ctx context.Context, a *attempt, err error) error {
	c.reportBegin(a)
	c.reportFailed(a, finished, err)
	if c.cfg.Topology && apierrors.IsNotFound(err) && a.node() != "" && c.reschedule(ctx, a) == nil {
		return nil
	}
	return err
}

// create asks the driver for the volume and saves its object. It is safe to repeat.
//
// Upstream: sig-storage-lib-external-provisioner provisionClaimOperation (v13.0.0).
func (c *Controller) create(ctx context.Context, a *attempt) error {
	c.reportBegin(a)
	c.background[a.key.uid] = a // until its outcome is known
	response, err := c.driver.CreateVolume(ctx, a.request)
	if err == nil {
		err = c.check(ctx, a, response.GetVolume())
	}
	if err != nil {
		return c.failed(ctx, a, err)
	}
	delete(c.background, a.key.uid)
	c.provisioned[a.key.uid] = struct{}{}
	c.save(ctx, newVolume(a, c.cfg.DriverName, c.cfg.Topology, response.GetVolume()))
	return nil
}

// check refuses a volume that cannot be used. One that is too small, or not made from its source, is deleted, and asked for
// again later.
func (c *Controller) check(ctx context.Context, a *attempt, made *csispec.Volume) error {
	if made.GetVolumeId() == "" {
		return errors.New("driver returned a volume without id")
	}
	var err error
	got, want := made.GetCapacityBytes(), a.request.GetCapacityRange().GetRequiredBytes()
	switch {
	case got != 0 && got < want:
		err = fmt.Errorf("created volume capacity %v less than requested capacity %v", got, want)
	case a.request.GetVolumeContentSource() != nil && made.GetContentSource() == nil:
		err = errors.New("volume content source missing")
	default:
		return nil
	}
	var cleanup error
	for range cleanupsMax {
		_, cleanup = c.driver.DeleteVolume(ctx, &csispec.DeleteVolumeRequest{VolumeId: made.GetVolumeId()})
		if cleanup == nil {
			return err
		}
	}
	// The text alone: the code of the failed cleanup must not pass for the outcome of CreateVolume.
	return fmt.Errorf("%w. Cleanup of volume %s failed, volume is orphaned: %s", err, a.request.GetName(), cleanup)
}

// failed decides how an attempt that ended in an error goes on.
//
// Upstream: sig-storage-lib-external-provisioner syncClaim, provisionVolumeErrorHandling, markForSlowRetry (v13.0.0).
//
// Differs: where there is no room and a node was chosen, the choice is given back even if the driver has no topology;
// an infeasible claim sleeps out its time once instead of being looked at with back-off.
func (c *Controller) failed(ctx context.Context, a *attempt, err error) error {
	o := classify(err)
	if o != background {
		delete(c.background, a.key.uid)
	}
	c.reportFailed(a, o, err)
	switch {
	case o == infeasible:
		c.infeasible[a.key.uid] = refusal{class: a.class.UID, until: c.cfg.Process.Now().Add(c.cfg.BackoffMax)}
		c.claimQueue.AddAfter(a.key, c.cfg.BackoffMax)
		return nil
	case o == exhausted && a.node() != "":
		if c.reschedule(ctx, a) == nil {
			return nil
		}
	}
	return err
}

// reschedule gives the choice of a node back to the scheduler, unless that was done already.
//
// Upstream: sig-storage-lib-external-provisioner rescheduleProvisioning (v13.0.0).
func (c *Controller) reschedule(ctx context.Context, a *attempt) error {
	claim := c.claim(a.key)
	if claim == nil || claim.Annotations[storagehelpers.AnnSelectedNode] != a.node() {
		return nil
	}
	claim = claim.DeepCopy()
	delete(claim.Annotations, storagehelpers.AnnSelectedNode)
	_, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

// save stores the object of a volume that was made. What cannot be stored now is tried again for ever: the volume exists,
// and is never deleted for it.
//
// Upstream: sig-storage-lib-external-provisioner queueStore (v13.0.0).
func (c *Controller) save(ctx context.Context, volume *corev1.PersistentVolume) {
	c.unsaved[volume.Name] = volume
	if c.trySave(ctx, volume) != nil {
		c.saveQueue.Add(volume.Name)
	}
}

// syncUnsaved tries again to store the object of a volume.
func (c *Controller) syncUnsaved(ctx context.Context, name string) error {
	volume, ok := c.unsaved[name]
	if !ok {
		return nil
	}
	return c.trySave(ctx, volume)
}

// trySave makes one request. An object that is there already is this one: its name is a function of the claim's UID.
func (c *Controller) trySave(ctx context.Context, volume *corev1.PersistentVolume) error {
	_, err := c.cfg.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("error saving volume %s: %w", volume.Name, err)
	}
	delete(c.unsaved, volume.Name)
	c.reportSaved(volume)
	return nil
}
