package pvcontroller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// The number of attempts to create the PersistentVolume of a provisioned volume, then to delete the
// volume, and the interval between them.
//
// Upstream: pkg/controller/volume/persistentvolume createProvisionedPVRetryCount,
// createProvisionedPVInterval (v1.36).
const (
	saveTries    = 5
	saveInterval = 10 * time.Second
)

// An unsaved value is a volume that was, or may have been, provisioned for a claim and has no
// PersistentVolume yet.
//
// Differs: upstream makes all attempts in one operation that sleeps in between and is the only one
// to know the volume. For 50 s nothing else can happen to the claim, and if the process ends
// meanwhile, the volume leaks. Here each attempt is one operation. A plugin finds an existing
// volume by its name, so a restarted controller finds the volume as long as the claim exists.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperation (v1.36), after the
// volume.
type unsaved struct {
	claim    *corev1.PersistentVolumeClaim
	options  plugins.ProvisionOptions
	volume   *corev1.PersistentVolume // nil: the volume may exist
	plugin   plugins.Capabilities
	tries    int // failed attempts to create, or to delete
	deleting bool
	due      time.Time // time of the next attempt
}

// resetSaveTimer sets the timer to the earliest next attempt.
func (c *Controller) resetSaveTimer() {
	var first time.Time
	for _, u := range c.unsaved {
		if first.IsZero() || u.due.Before(first) {
			first = u.due
		}
	}
	if first.IsZero() {
		c.saveTimer.Stop()
		return
	}
	c.saveTimer.ResetAt(first)
}

// startDueSaves starts the attempts that are due, in the order of the claims' UIDs.
func (c *Controller) startDueSaves() {
	now := c.cfg.Process.Now()
	for _, uid := range slices.Sorted(maps.Keys(c.unsaved)) {
		u := c.unsaved[uid]
		if now.Before(u.due) {
			continue
		}
		u.due = now.Add(saveInterval) // in case it cannot start
		kind := opSave
		if u.deleting {
			kind = opClean
		}
		item, name := queueItem{c.claimQueue, keyOf(u.claim)}, operationName(opProvision, u.claim)
		c.operations.start(kind, name, item, u.claim, func(ctx context.Context) error { return c.trySave(ctx, u) })
	}
	c.resetSaveTimer()
}

// trySave tries once to save a volume or, if it cannot be saved, to delete it, and schedules the
// next attempt.
func (c *Controller) trySave(ctx context.Context, u *unsaved) error {
	var err error
	if u.deleting || !c.claimExists(u.claim) {
		u.deleting = true
		err = c.cleanUp(ctx, u)
	} else {
		err = c.save(ctx, u)
	}
	u.due = c.cfg.Process.Now().Add(saveInterval)
	c.resetSaveTimer()
	return err
}

// save tries to create the PersistentVolume of a volume. An existing one counts as success. After
// the last failed attempt the volume is deleted.
func (c *Controller) save(ctx context.Context, u *unsaved) error {
	_, err := c.cfg.Client.CoreV1().PersistentVolumes().Create(ctx, u.volume, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		c.finishSave(u)
		return nil
	}
	if u.tries++; u.tries == saveTries {
		c.record(u.claim, msgProvisioning(fmt.Sprintf(
			"Error creating provisioned PV object for claim %s: %v. Deleting the volume.", keyOf(u.claim), err)))
		u.tries, u.deleting = 0, true
		return c.cleanUp(ctx, u)
	}
	return err
}

func (c *Controller) finishSave(u *unsaved) {
	delete(c.unsaved, u.claim.UID)
	c.clearSent(u.claim.UID)
	c.record(u.claim, msgProvisioned(u.options.Name, u.plugin.Name()))
}

// cleanUp tries to delete a volume that could not be saved.
//
// Differs: upstream assumes that none of its creations took effect. If only the answer to the last
// creation was lost, it deletes the data of an existing volume; here the API server is asked. After
// deleting a volume without PersistentVolume, upstream fails to remove the finalizer from the
// latter, and reports that the volume was not deleted.
func (c *Controller) cleanUp(ctx context.Context, u *unsaved) error {
	_, err := c.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, u.options.Name, metav1.GetOptions{})
	switch {
	case err == nil && u.volume == nil:
		delete(c.unsaved, u.claim.UID)
		return nil
	case err == nil:
		c.finishSave(u)
		return nil
	case apierrors.IsNotFound(err):
		err = c.deleteProvisioned(ctx, u)
	}
	switch {
	case err == nil:
		delete(c.unsaved, u.claim.UID)
		c.claimQueue.Add(keyOf(u.claim)) // to provision again
	case u.tries+1 == saveTries || errors.Is(err, plugins.ErrNoPlugin), errors.Is(err, plugins.ErrUnsupported):
		delete(c.unsaved, u.claim.UID)
		c.record(u.claim, msgCleanup(keyOf(u.claim), err))
	default:
		u.tries++
	}
	return err
}

// deleteProvisioned calls the plugin that provisioned a volume to delete it.
func (c *Controller) deleteProvisioned(ctx context.Context, u *unsaved) error {
	if u.plugin.Deleter == nil {
		_, err := c.plugins.FindDeletable(u.plugin.Name())
		return err
	}
	if u.volume == nil {
		volume, err := u.plugin.Provisioner.Provision(ctx, u.options)
		if err != nil {
			return err
		}
		if u.volume, err = completeVolume(u.claim, volume, u.options, u.plugin.Name()); err != nil {
			return err
		}
	}
	return callDeleter(ctx, u.plugin.Deleter, u.volume)
}

// rememberUncertain stores that a plugin may have provisioned a volume although it failed.
// Provisioning is retried as long as the claim exists. When the claim is deleted, the volume is
// provisioned once more to find it, and deleted.
//
// Differs: upstream forgets it.
func (c *Controller) rememberUncertain(
	claim *corev1.PersistentVolumeClaim, options plugins.ProvisionOptions, plugin plugins.Capabilities,
) {
	c.uncertain[claim.UID] = &unsaved{claim: claim, options: options, plugin: plugin, deleting: true}
	if !c.claimExists(claim) {
		c.cleanUpClaim(claim.UID)
	}
}

// claimExists reports whether a claim exists in the controller's cache.
func (c *Controller) claimExists(claim *corev1.PersistentVolumeClaim) bool {
	known := c.claims.get(c.claims.key(claim))
	return known != nil && known.UID == claim.UID
}

// cleanUpClaim schedules the deletion of the volume that was, or may have been, provisioned for a
// claim.
func (c *Controller) cleanUpClaim(uid types.UID) {
	c.memory.readRest()
	if c.uncertain[uid] != nil || c.unsaved[uid] != nil {
		c.memory.writeRest()
	}
	if u := c.uncertain[uid]; u != nil {
		delete(c.uncertain, uid)
		c.unsaved[uid] = u
	}
	if u := c.unsaved[uid]; u != nil {
		u.due = c.cfg.Process.Now()
		c.resetSaveTimer()
	}
}
