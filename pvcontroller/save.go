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

// How often it is tried to create the PersistentVolume of a volume that was made, and then to delete the volume, and how long
// is waited in between.
//
// Upstream: pkg/controller/volume/persistentvolume createProvisionedPVRetryCount, createProvisionedPVInterval (v1.36).
const (
	saveTries    = 5
	saveInterval = 10 * time.Second
)

// unsaved is a volume that was made for a claim, or may have been, and has no PersistentVolume yet.
//
// Differs: upstream makes all tries in one operation, which sleeps in between and knows alone of the volume: for 50 s nothing
// else can be done for the claim, and if the process ends then, the volume is never heard of again. Here each try is an
// operation of its own; and since a plugin finds again what it made under a name, a controller that begins anew finds the
// volume, as long as the claim is there.
//
// Upstream: pkg/controller/volume/persistentvolume provisionClaimOperation (v1.36), after the volume.
type unsaved struct {
	claim    *corev1.PersistentVolumeClaim
	options  plugins.ProvisionOptions
	volume   *corev1.PersistentVolume // nil: it may have been made
	plugin   plugins.Capabilities
	tries    int // that failed: to create, or to delete
	deleting bool
	due      time.Time // of the next try
}

// resetSaveTimer sets the timer to the next try of all.
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

// startDueSaves starts the tries whose time has come, in the order of the claims' UIDs.
func (c *Controller) startDueSaves() {
	now := c.cfg.Process.Now()
	for _, uid := range slices.Sorted(maps.Keys(c.unsaved)) {
		u := c.unsaved[uid]
		if now.Before(u.due) {
			continue
		}
		u.due = now.Add(saveInterval) // for when it cannot start
		kind := opSave
		if u.deleting {
			kind = opClean
		}
		c.operations.start(kind, operationName(opProvision, u.claim), queueItem{c.claimQueue, keyOf(u.claim)}, u.claim, func(ctx context.Context) error {
			return c.trySave(ctx, u)
		})
	}
	c.resetSaveTimer()
}

// trySave tries once to save a volume or, if it cannot be saved, to delete it; and sees to it that it is tried again if need be.
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

// save tries to create the PersistentVolume of a volume. That it is there already is success. When all tries have failed, the
// volume is deleted.
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
// Differs: upstream takes it that none of its creations took effect, and deletes the data of a volume whose last creation did,
// when only the answer was lost; here the API server is asked. And upstream, having deleted a volume without a
// PersistentVolume, fails to take the finalizer off the latter, and reports that the volume was not deleted.
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
		c.claimQueue.Add(keyOf(u.claim)) // for which a volume is made anew
	case u.tries+1 == saveTries || errors.Is(err, plugins.ErrNoPlugin), errors.Is(err, plugins.ErrUnsupported):
		delete(c.unsaved, u.claim.UID)
		c.record(u.claim, msgCleanup(keyOf(u.claim), err))
	default:
		u.tries++
	}
	return err
}

// deleteProvisioned has the plugin that made a volume delete it.
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

// rememberUncertain remembers that a plugin may have made a volume, although it failed. It is asked for again as long as the claim is
// there; when the claim goes, the volume is found once more, and deleted.
//
// Differs: upstream forgets it.
func (c *Controller) rememberUncertain(claim *corev1.PersistentVolumeClaim, options plugins.ProvisionOptions, plugin plugins.Capabilities) {
	c.uncertain[claim.UID] = &unsaved{claim: claim, options: options, plugin: plugin, deleting: true}
	if !c.claimExists(claim) {
		c.cleanUpClaim(claim.UID)
	}
}

// claimExists tells whether a claim is still there as far as the controller knows.
func (c *Controller) claimExists(claim *corev1.PersistentVolumeClaim) bool {
	known := c.claims.get(keyOf(claim))
	return known != nil && known.UID == claim.UID
}

// cleanUpClaim has the volume that was made for a claim, or may have been, deleted at once.
func (c *Controller) cleanUpClaim(uid types.UID) {
	if u := c.uncertain[uid]; u != nil {
		delete(c.uncertain, uid)
		c.unsaved[uid] = u
	}
	if u := c.unsaved[uid]; u != nil {
		u.due = c.cfg.Process.Now()
		c.resetSaveTimer()
	}
}
