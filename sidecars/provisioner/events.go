package provisioner

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of the events.
//
// Upstream: sig-storage-lib-external-provisioner controller, volume_store (v13.0.0), to the letter.
const (
	reasonProvisioning          = "Provisioning"
	reasonProvisioningSucceeded = "ProvisioningSucceeded"
	reasonProvisioningFailed    = "ProvisioningFailed"
	reasonVolumeFailedDelete    = "VolumeFailedDelete"
)

func (c *Controller) reportBegin(a *attempt) {
	c.cfg.Recorder.Eventf(a.claim, corev1.EventTypeNormal, reasonProvisioning,
		"External provisioner is provisioning volume for claim %q", a.key.namespace+"/"+a.key.name)
}

func (c *Controller) reportFailed(a *attempt, o outcome, err error) {
	message := err.Error()
	if o == infeasible {
		message = "Volume provisioning failed with infeasible error. Retries will be delayed. " + message
	}
	c.cfg.Recorder.Event(a.claim, corev1.EventTypeWarning, reasonProvisioningFailed, message)
}

// reportInvalid records that a claim cannot be provisioned as it and its class are.
func (c *Controller) reportInvalid(claim *corev1.PersistentVolumeClaim, err error) {
	if errors.Is(err, errPopulator) {
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonProvisioning,
			"Assuming an external populator will provision the volume")
		return
	}
	c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonProvisioningFailed, err.Error())
}

// reportSaved records the success on the claim, if it still exists.
func (c *Controller) reportSaved(volume *corev1.PersistentVolume) {
	ref := volume.Spec.ClaimRef
	if claim := c.claim(claimKey{ref.Namespace, ref.Name, ref.UID}); claim != nil {
		c.cfg.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonProvisioningSucceeded,
			"Successfully provisioned volume %s", volume.Name)
	}
}

func (c *Controller) reportDeleteFailed(volume *corev1.PersistentVolume, message string) {
	c.cfg.Recorder.Event(volume, corev1.EventTypeWarning, reasonVolumeFailedDelete, message)
}
