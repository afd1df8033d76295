package pvcontroller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// claimFacts is what is known when a claim's next step is decided.
type claimFacts struct {
	claim        *corev1.PersistentVolumeClaim
	class        *storagev1.StorageClass  // the claim's; nil: it names none, or none of that name is there
	defaultClass *storagev1.StorageClass  // nil: there is none
	volume       *corev1.PersistentVolume // whom spec.volumeName names; nil: it is not there
	match        *corev1.PersistentVolume // for a claim that looks for a volume; nil: none suits
	unscheduled  []string                 // pods that use the claim and have no node yet

	provisioner    classProvisioner // who makes volumes of the claim's class
	noProvisioning bool             // nobody is to
}

// claimAction says what is to be done about a claim.
type claimAction int

const (
	claimRecord          claimAction = iota // say the message, and leave the claim as it is
	claimSetPending                         // say the message if there is one; phase Pending
	claimBind                               // bind claim and volume to each other
	claimSetLost                            // phase Lost; with the change of phase, tell the message
	claimSetClass                           // give it the class
	claimRequestExternal                    // ask the class's external provisioner for a volume, then say the message
	claimProvision                          // have the class's plugin make a volume
)

// claimDecision is what is to be done about a claim.
type claimDecision struct {
	action      claimAction
	volume      *corev1.PersistentVolume // claimBind
	class       *storagev1.StorageClass  // claimClassify, claimProvision
	provisioner classProvisioner         // claimRequest, claimProvision
	message     message
}

// syncClaim takes a claim its next step.
//
// Upstream: pkg/controller/volume/persistentvolume syncClaim (v1.36).
func (c *Controller) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	claim, err := c.syncClaimMetadata(ctx, claim)
	if err != nil {
		return err
	}
	if claim.Spec.VolumeName != "" && c.uncertain[claim.UID] != nil {
		c.cleanUpClaim(claim.UID) // to another volume
	}
	view, err := c.gatherClaim(claim)
	if err != nil {
		return err
	}
	plan := decideClaim(view)
	if plan.message == (message{}) && plan.action != claimProvision { // then the operation may have said something
		c.clearSent(claim.UID)
	}
	return c.applyClaim(ctx, claim, plan)
}

// gatherClaim gathers what decideClaim needs, without leaving the component.
func (c *Controller) gatherClaim(claim *corev1.PersistentVolumeClaim) (claimFacts, error) {
	view := claimFacts{claim: claim}
	if claim.Spec.VolumeName != "" {
		view.volume = c.volumes.get(claim.Spec.VolumeName)
	}
	if claim.Spec.VolumeName != "" || isBindCompleted(claim) {
		return view, nil
	}
	name := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if name != "" {
		view.class, _ = c.classLister.Get(name) // a lister fails with NotFound only, and then gives nil
	}
	if view.class != nil && view.class.VolumeBindingMode == nil {
		return view, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", view.class.Name)
	}
	var err error
	if view.match, err = c.volumes.pool.match(claim, isDelayed(view.class)); err != nil || view.match != nil {
		return view, err
	}
	view.noProvisioning = c.cfg.NoProvisioning
	if name != "" {
		view.provisioner = findProvisioner(name, view.class, c.plugins, c.migration)
	}
	if isDelayed(view.class) {
		view.unscheduled = c.unscheduledPods(keyOf(claim))
	}
	if !storagehelpers.PersistentVolumeClaimHasClass(claim) {
		var classes []*storagev1.StorageClass
		classes, err = c.classLister.List(labels.Everything())
		view.defaultClass = defaultClass(classes)
	}
	return view, err
}

// decideClaim says what is to be done about a claim.
func decideClaim(view claimFacts) claimDecision {
	switch {
	case isBindCompleted(view.claim):
		return decideBound(view)
	case view.claim.Spec.VolumeName != "":
		return decideRequested(view)
	case view.match != nil:
		return claimDecision{action: claimBind, volume: view.match}
	default:
		return decideUnmatched(view)
	}
}

// decideUnmatched decides about a claim that looks for a volume when none suits: a class for it, a word to the waiting, or
// a volume made for it.
//
// Upstream: pkg/controller/volume/persistentvolume syncUnboundClaim (v1.36), where no volume was found.
func decideUnmatched(view claimFacts) claimDecision {
	switch {
	case !storagehelpers.PersistentVolumeClaimHasClass(view.claim) && view.defaultClass != nil:
		return claimDecision{action: claimSetClass, class: view.defaultClass}
	case isDelayed(view.class) && !storagehelpers.IsDelayBindingProvisioning(view.claim):
		return claimDecision{action: claimSetPending, message: msgDelayed(view.unscheduled)}
	case storagehelpers.GetPersistentVolumeClaimClass(view.claim) != "":
		return decideProvision(view)
	default:
		return claimDecision{action: claimSetPending, message: msgNoVolumes}
	}
}

// decideRequested decides about a claim that is not bound but names a volume.
//
// Differs: where a claim names a volume by the controller's own hand (bound-by-controller without bind-completed, so
// that somebody took the latter away) and the volume is another's, upstream fails the sync and tries again for ever.
// Nothing can come of that before one of the two changes, so here the claim is told and left.
//
// Upstream: pkg/controller/volume/persistentvolume syncUnboundClaim (v1.36), where the user asked for a volume.
func decideRequested(view claimFacts) claimDecision {
	claim, volume := view.claim, view.volume
	switch {
	case volume == nil:
		return claimDecision{action: claimSetPending}
	case volume.Spec.ClaimRef == nil:
		if err := checkSuitable(claim, volume); err != nil {
			return claimDecision{action: claimSetPending, message: msgUnsuitable(volume.Name, err.Error())}
		}
		return claimDecision{action: claimBind, volume: volume}
	case storagehelpers.IsVolumeBoundToClaim(volume, claim):
		return claimDecision{action: claimBind, volume: volume}
	case metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBoundByController):
		return claimDecision{action: claimRecord, message: msgTaken(volume.Name)}
	default:
		return claimDecision{action: claimSetPending, message: msgTaken(volume.Name)}
	}
}

// decideBound decides about a claim that was bound once. A claim that is Lost is found again when its volume comes back.
//
// Upstream: pkg/controller/volume/persistentvolume syncBoundClaim (v1.36).
func decideBound(view claimFacts) claimDecision {
	claim, volume := view.claim, view.volume
	switch {
	case claim.Spec.VolumeName == "":
		return claimDecision{action: claimSetLost, message: msgLostReference}
	case volume == nil:
		return claimDecision{action: claimSetLost, message: msgLostVolume}
	case volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == claim.UID:
		return claimDecision{action: claimBind, volume: volume}
	default:
		return claimDecision{action: claimSetLost, message: msgMisbound}
	}
}

func (c *Controller) applyClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, plan claimDecision) error {
	switch plan.action {
	case claimRecord:
		if plan.message != (message{}) {
			c.recordOnce(claim.UID, claim, plan.message)
		}
		return nil
	case claimSetPending:
		if plan.message != (message{}) {
			c.recordOnce(claim.UID, claim, plan.message)
		}
		_, err := c.writeClaimStatus(ctx, claim, corev1.ClaimPending, nil)
		return err
	case claimBind:
		if c.isBeingReclaimed(plan.volume, queueItem{c.claimQueue, keyOf(claim)}) {
			return nil
		}
		return c.bind(ctx, plan.volume, claim)
	case claimSetLost:
		return c.setLost(ctx, claim, plan.message)
	case claimSetClass:
		return c.setClass(ctx, claim, plan.class)
	case claimRequestExternal:
		return c.requestExternal(ctx, claim, plan)
	case claimProvision:
		c.startProvisioning(claim, plan.class, plan.provisioner.plugin)
		return nil
	default:
		panic(fmt.Sprintf("pvcontroller: claim action %d", plan.action))
	}
}

// setLost marks a claim as Lost, once.
func (c *Controller) setLost(ctx context.Context, claim *corev1.PersistentVolumeClaim, m message) error {
	if claim.Status.Phase == corev1.ClaimLost {
		return nil
	}
	written, err := c.writeClaimStatus(ctx, claim, corev1.ClaimLost, nil)
	if err != nil {
		return err
	}
	c.record(written, m)
	return nil
}

// checkSuitable says why a volume does not satisfy a claim that asks for it by name; the claim's selector does not count.
// The texts go into events.
//
// Upstream: pkg/controller/volume/persistentvolume checkVolumeSatisfyClaim (v1.36).
func checkSuitable(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	request, capacity := requestOf(claim), volume.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case volume.DeletionTimestamp != nil:
		return fmt.Errorf("the volume is marked for deletion %q", volume.Name)
	case capacity.Value() < request.Value():
		return errors.New("requested PV is too small")
	case storagehelpers.GetPersistentVolumeClass(volume) != storagehelpers.GetPersistentVolumeClaimClass(claim):
		return errors.New("storageClassName does not match")
	case ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != ptr.Deref(volume.Spec.VolumeAttributesClassName, ""):
		return errors.New("volumeAttributesClassName does not match")
	case storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec):
		return errors.New("incompatible volumeMode")
	case !storagehelpers.CheckAccessModes(claim, volume):
		return errors.New("incompatible accessMode")
	default:
		return nil
	}
}
