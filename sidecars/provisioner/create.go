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

// cleanupsMax bounds the immediate attempts to delete a volume that turned out too small.
//
// Upstream: external-provisioner pkg/controller deleteVolumeRetryCount.
const cleanupsMax = 5

// addPlacement adds the volume's content source, accessibility requirements, secrets and attributes to
// the request.
func (c *Controller) addPlacement(ctx context.Context, a *attempt) (err error) {
	if a.request.VolumeContentSource, err = c.findSource(ctx, a.claim, a.class.Provisioner, a.class.Name); err != nil {
		return err
	}
	a.request.AccessibilityRequirements, err = c.topology.requirement(a.claim, a.class.AllowedTopologies)
	if err != nil && !apierrors.IsNotFound(err) {
		err = fmt.Errorf("error generating accessibility requirements: %w", err)
	}
	if err != nil {
		return err
	}
	if a.secrets, err = secretsOf(a.class.Parameters, a.request.GetName(), a.claim); err != nil {
		return err
	}
	if a.request.Secrets, err = c.credentials(ctx, a.secrets.provisioner); err != nil {
		return err
	}
	a.request.MutableParameters, err = c.mutableParameters(ctx, a.claim)
	return err
}

// mutableParameters returns the parameters of a claim's VolumeAttributesClass. No error is a
// NotFound error, which is reserved for nodes.
//
// Upstream: external-provisioner pkg/controller prepareProvision (6.3.0).
func (c *Controller) mutableParameters(ctx context.Context, claim *corev1.PersistentVolumeClaim) (map[string]string, error) {
	name := attributesClass(claim)
	if name == "" {
		return nil, nil //nolint:nilnil // none
	}
	class, err := c.cfg.Client.StorageV1().VolumeAttributesClasses().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, errors.New(err.Error())
	}
	if class.DriverName != c.cfg.DriverName {
		return nil, fmt.Errorf("VAC %s referenced in PVC is for driver %s which does not match driver name %s", name, class.DriverName, c.cfg.DriverName)
	}
	return class.Parameters, nil
}

// placementFailed handles an error before the driver was called. If the selected node does not
// exist, the scheduler must select again.
//
// Upstream: external-provisioner pkg/controller prepareProvision (6.3.0).
func (c *Controller) placementFailed(ctx context.Context, a *attempt, err error) error {
	if !c.cfg.Topology || !apierrors.IsNotFound(err) || a.node() == "" {
		c.waitForPlacement(a, err)
		return nil
	}
	c.reportBegin(a)
	c.reportFailed(a, finished, err)
	if c.reschedule(ctx, a) == nil {
		return nil
	}
	return err
}

// create calls the driver and saves the volume's PersistentVolume. It is safe to repeat.
//
// Upstream: sig-storage-lib-external-provisioner provisionClaimOperation (v13.0.0).
func (c *Controller) create(ctx context.Context, a *attempt) error {
	c.reportBegin(a)
	c.background[a.key.uid] = a // until its result is known
	response, err := c.driver.CreateVolume(ctx, a.request)
	if err == nil {
		err = c.check(ctx, a, response.GetVolume())
	}
	if err != nil {
		return c.failed(ctx, a, err)
	}
	delete(c.background, a.key.uid)
	c.provisioned[a.key.uid] = struct{}{}
	volume := c.cfg.newVolume(a, response.GetVolume())
	c.capacities.refresh(volume.Spec.NodeAffinity, a.class.Name)
	c.requeueSource(a.claim)
	c.save(ctx, volume)
	return nil
}

// check rejects an unusable volume. A volume that is too small, or not created from its source, is
// deleted and requested again later.
func (c *Controller) check(ctx context.Context, a *attempt, created *csispec.Volume) error {
	if created.GetVolumeId() == "" {
		return errors.New("driver returned a volume without id")
	}
	var err error
	got, want := created.GetCapacityBytes(), a.request.GetCapacityRange().GetRequiredBytes()
	switch {
	case got != 0 && got < want:
		err = fmt.Errorf("created volume capacity %v less than requested capacity %v", got, want)
	case a.request.GetVolumeContentSource() != nil && created.GetContentSource() == nil:
		err = errors.New("volume content source missing")
	default:
		return nil
	}
	var cleanup error
	for range cleanupsMax {
		_, cleanup = c.driver.DeleteVolume(ctx, &csispec.DeleteVolumeRequest{
			VolumeId: created.GetVolumeId(), Secrets: a.request.GetSecrets(),
		})
		if cleanup == nil {
			return err
		}
	}
	// Only the text: the code of the failed cleanup must not become the result of CreateVolume.
	return fmt.Errorf("%w. Cleanup of volume %s failed, volume is orphaned: %s", err, a.request.GetName(), cleanup)
}

// failed handles the error of an attempt.
//
// Differs: if the storage is exhausted and a node was selected, the selection is removed even if
// the driver has no topology. An infeasible claim waits once for its full delay; upstream looks at
// it repeatedly with back-off.
//
// Upstream: sig-storage-lib-external-provisioner syncClaim, provisionVolumeErrorHandling,
// markForSlowRetry (v13.0.0).
func (c *Controller) failed(ctx context.Context, a *attempt, err error) error {
	o := classify(err)
	if o != background {
		delete(c.background, a.key.uid)
		c.requeueSource(a.claim)
	}
	c.reportFailed(a, o, err)
	c.capacities.refresh(nil, a.class.Name)
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

// reschedule removes the selected node from the claim, unless that has happened already.
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

// save stores the PersistentVolume of a provisioned volume. A failed save is retried indefinitely:
// the volume exists, and is never deleted for that reason.
//
// Upstream: sig-storage-lib-external-provisioner queueStore (v13.0.0).
func (c *Controller) save(ctx context.Context, volume *corev1.PersistentVolume) {
	c.unsaved[volume.Name] = volume
	if c.trySave(ctx, volume) != nil {
		c.saveQueue.Add(volume.Name)
	}
}

// syncUnsaved retries to store the PersistentVolume of a volume.
func (c *Controller) syncUnsaved(ctx context.Context, name string) error {
	volume, ok := c.unsaved[name]
	if !ok {
		return nil
	}
	return c.trySave(ctx, volume)
}

// trySave sends one create request. An existing object is the same object, since its name is a
// function of the claim's UID.
func (c *Controller) trySave(ctx context.Context, volume *corev1.PersistentVolume) error {
	_, err := c.cfg.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("error saving volume %s: %w", volume.Name, err)
	}
	delete(c.unsaved, volume.Name)
	c.reportSaved(volume)
	return nil
}
