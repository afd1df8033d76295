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

// A verdict is the next step for a claim.
type verdict int

const (
	ignore       verdict = iota // of another driver, or bound
	waitForClass                // its class does not exist
	waitForNode                 // no node is selected for its first consumer
	provision
)

// String returns the verdict in words.
func (v verdict) String() string {
	return [...]string{"ignore", "wait for its class", "wait for a node", "provision"}[v]
}

// decideClaim decides the next step for a claim; class is nil if it does not exist.
//
// Differs: a missing class is waited for; upstream retries with back-off.
//
// Upstream: sig-storage-lib-external-provisioner shouldProvision (v13.0.0).
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

// provisionerOf returns the driver in a claim's annotations.
func provisionerOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[storagehelpers.AnnStorageProvisioner]; ok {
		return name
	}
	return claim.Annotations[provisionerBetaAnnotation]
}

func isDelayed(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// volumeName returns the name of a claim's volume, at the driver and in the API. It is a function
// of the claim's UID.
func volumeName(claim types.UID) string { return "pvc-" + string(claim) }

// A refusal records that the driver reported a claim as infeasible.
type refusal struct {
	class types.UID // class of the refused request
	until time.Time // time of the retry
}

// syncClaim provisions the volume of a claim if necessary.
//
// Differs: an attempt that may have had its effect is repeated unchanged, even if the claim was
// bound to another volume or changed meanwhile. Upstream then forgets it and leaks the volume.
//
// Upstream: sig-storage-lib-external-provisioner syncClaimHandler, syncClaim,
// provisionClaimOperation (v13.0.0).
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
	if decideClaim(claim, class, c.cfg.DriverName) != provision || c.isProvisioned(key.uid) || !c.isResponsible(claim, class) {
		return nil
	}
	if delay := c.retryDelay(key.uid, class); delay > 0 {
		c.claimQueue.AddAfter(key, delay)
		return nil
	}
	a, err := c.cfg.newAttempt(claim, class, capabilities)
	if err != nil {
		c.reportInvalid(claim, err)
		return nil
	}
	if err := c.addPlacement(ctx, a); err != nil {
		return c.placementFailed(ctx, a, err)
	}
	delete(c.unplaced, key.uid)
	return c.create(ctx, a)
}

// claim returns the claim of a key, or nil if it does not exist.
func (c *Controller) claim(key claimKey) *corev1.PersistentVolumeClaim {
	claim, err := c.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if err != nil || claim.UID != key.uid {
		return nil
	}
	return claim
}

// isProvisioned reports whether a claim's volume exists already. The volume cache may be stale: if
// the request were repeated, a volume could be created again after its deletion, and would leak.
func (c *Controller) isProvisioned(claim types.UID) bool {
	_, known := c.provisioned[claim]
	_, err := c.volumes.Get(volumeName(claim))
	return known || err == nil
}

// retryDelay returns how long a claim must wait after a refusal. Another class ends the delay.
func (c *Controller) retryDelay(claim types.UID, class *storagev1.StorageClass) time.Duration {
	refused, ok := c.infeasible[claim]
	if !ok {
		return 0
	}
	delay := refused.until.Sub(c.cfg.Process.Now())
	if refused.class != class.UID || delay <= 0 {
		delete(c.infeasible, claim)
		return 0
	}
	return delay
}
