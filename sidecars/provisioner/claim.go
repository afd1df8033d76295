package provisioner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

const provisionerBetaAnnotation = "volume.beta.kubernetes.io/storage-provisioner"

// verdict is what is to be done about a claim.
type verdict int

const (
	ignore       verdict = iota // another driver's, or bound
	waitForClass                // its class is not there
	waitForNode                 // nobody chose a node for its first consumer
	provision
)

// String gives the verdict in words.
func (v verdict) String() string {
	return [...]string{"ignore", "wait for its class", "wait for a node", "provision"}[v]
}

// decideClaim tells what is to be done about a claim; class is nil where there is none.
//
// Upstream: sig-storage-lib-external-provisioner shouldProvision (v13.0.0).
//
// Differs: a class that is not there is waited for; upstream tries again with back-off.
func decideClaim(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, driver string) verdict {
	switch {
	case claim.Spec.VolumeName != "" || provisionerOf(claim) != driver:
		return ignore
	case class == nil:
		return waitForClass
	case class.Provisioner != driver:
		return ignore
	case isDelayed(class) && claim.Annotations[storagehelpers.AnnSelectedNode] == "":
		return waitForNode
	default:
		return provision
	}
}

// provisionerOf is the driver that a claim is annotated for.
func provisionerOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[storagehelpers.AnnStorageProvisioner]; ok {
		return name
	}
	return claim.Annotations[provisionerBetaAnnotation]
}

func isDelayed(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// volumeName is the name of a claim's volume, at the driver and in the API: a function of the claim's UID.
func volumeName(claim types.UID) string { return "pvc-" + string(claim) }

// refusal is a driver's word that a claim's volume cannot be made.
type refusal struct {
	class types.UID // of what the driver was asked for
	until time.Time // when it is asked again
}

// syncClaim makes the volume of a claim that should have one.
//
// Upstream: sig-storage-lib-external-provisioner syncClaimHandler, syncClaim, provisionClaimOperation (v13.0.0).
//
// Differs: an attempt that may have had its effect is repeated as it was, even when the claim was bound elsewhere, or
// changed, meanwhile; upstream then forgets it and leaks the volume.
func (c *Controller) syncClaim(ctx context.Context, key claimKey) error {
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return err
	}
	if a, ok := c.background[key.uid]; ok {
		return c.create(ctx, a)
	}
	claim := c.claim(key)
	if claim == nil {
		return nil
	}
	if isHeldForClones(claim) {
		return c.releaseSource(ctx, claim)
	}
	class := c.class(claim)
	if decideClaim(claim, class, c.cfg.DriverName) != provision || c.isProvisioned(key.uid) {
		return nil
	}
	if rest := c.retryDelay(key.uid, class); rest > 0 {
		c.claimQueue.AddAfter(key, rest)
		return nil
	}
	a, err := newAttempt(claim, class, capabilities)
	if err != nil {
		c.reportInvalid(claim, err)
		return nil
	}
	if err := c.addPlacement(ctx, a); err != nil {
		return c.placementFailed(ctx, a, err)
	}
	return c.create(ctx, a)
}

// claim is the claim that a key names, nil where it is gone.
func (c *Controller) claim(key claimKey) *corev1.PersistentVolumeClaim {
	claim, err := c.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if err != nil || claim.UID != key.uid {
		return nil
	}
	return claim
}

// isProvisioned tells whether a claim's volume is made already. The cache of volumes lags: asked for once more, the volume could
// come back after it has been deleted, with nobody to delete it again.
func (c *Controller) isProvisioned(claim types.UID) bool {
	_, made := c.provisioned[claim]
	_, err := c.volumes.Get(volumeName(claim))
	return made || err == nil
}

// retryDelay is how long a claim is to be left alone after the driver refused it. Another class ends that.
func (c *Controller) retryDelay(claim types.UID, class *storagev1.StorageClass) time.Duration {
	refused, ok := c.infeasible[claim]
	if !ok {
		return 0
	}
	rest := refused.until.Sub(c.cfg.Process.Now())
	if refused.class != class.UID || rest <= 0 {
		delete(c.infeasible, claim)
		return 0
	}
	return rest
}
