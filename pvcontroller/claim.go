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

// claimFacts holds the facts that decideClaim needs.
type claimFacts struct {
	claim        *corev1.PersistentVolumeClaim
	class        *storagev1.StorageClass  // the claim's; nil: the claim names none, or it does not exist
	defaultClass *storagev1.StorageClass  // nil: there is none
	volume       *corev1.PersistentVolume // named by spec.volumeName; nil: does not exist
	match        *corev1.PersistentVolume // for an unbound claim; nil: no match
	unscheduled  []string                 // pods that use the claim and have no node yet

	provisioner    classProvisioner // of the claim's class
	noProvisioning bool             // provisioning is disabled
}

// A claimAction is the next step for a claim.
type claimAction int

const (
	claimRecord          claimAction = iota // record the message; do not change the claim
	claimSetPending                         // record the message if there is one; phase Pending
	claimBind                               // bind claim and volume to each other
	claimSetLost                            // phase Lost; record the message when the phase changes
	claimSetClass                           // set the class
	claimRequestExternal                    // annotate for the external provisioner, then record the message
	claimProvision                          // provision a volume with the class's plugin
)

// A claimDecision is the next step for a claim with its details.
type claimDecision struct {
	action      claimAction
	volume      *corev1.PersistentVolume // claimBind
	class       *storagev1.StorageClass  // claimClassify, claimProvision
	provisioner classProvisioner         // claimRequest, claimProvision
	message     message
}

// syncClaim takes the next step for a claim.
//
// Upstream: pkg/controller/volume/persistentvolume syncClaim (v1.36).
func (c *Controller) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	claim, err := c.syncClaimMetadata(ctx, claim)
	if err != nil {
		return err
	}
	c.memory.readRest()
	if claim.Spec.VolumeName != "" && c.uncertain[claim.UID] != nil {
		c.cleanUpClaim(claim.UID) // bound to another volume
	}
	facts, err := c.gatherClaim(claim)
	if err != nil {
		return err
	}
	decision := decideClaim(facts)
	if decision.message == (message{}) &&
		decision.action != claimProvision { // the operation may have recorded an event
		c.clearSent(claim.UID)
	}
	return c.applyClaim(ctx, claim, decision)
}

// gatherClaim gathers the facts for decideClaim without leaving the process.
func (c *Controller) gatherClaim(claim *corev1.PersistentVolumeClaim) (claimFacts, error) {
	facts := claimFacts{claim: claim}
	if claim.Spec.VolumeName != "" {
		facts.volume = c.volumes.keep(claim.Spec.VolumeName)
	}
	if claim.Spec.VolumeName != "" || isBindCompleted(claim) {
		return facts, nil
	}
	name := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if name != "" {
		facts.class = listed[*storagev1.StorageClass](c.classIndexer, name)
	}
	if facts.class != nil && facts.class.VolumeBindingMode == nil {
		return facts, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", facts.class.Name)
	}
	var err error
	if facts.match, err = c.volumes.match(claim, isDelayed(facts.class)); err != nil || facts.match != nil {
		return facts, err
	}
	facts.noProvisioning = c.cfg.NoProvisioning
	if name != "" {
		facts.provisioner = findProvisioner(name, facts.class, c.plugins, c.migration)
	}
	if isDelayed(facts.class) {
		facts.unscheduled = c.unscheduledPods(c.claims.key(claim))
	}
	if !storagehelpers.PersistentVolumeClaimHasClass(claim) {
		var classes []*storagev1.StorageClass
		classes, err = c.classLister.List(labels.Everything())
		facts.defaultClass = defaultClass(classes)
	}
	return facts, err
}

// decideClaim decides the next step for a claim.
func decideClaim(facts claimFacts) claimDecision {
	switch {
	case isBindCompleted(facts.claim):
		return decideBound(facts)
	case facts.claim.Spec.VolumeName != "":
		return decideRequested(facts)
	case facts.match != nil:
		return claimDecision{action: claimBind, volume: facts.match}
	default:
		return decideUnmatched(facts)
	}
}

// decideUnmatched decides about an unbound claim without a matching volume: set the default class,
// wait, or provision.
//
// Upstream: pkg/controller/volume/persistentvolume syncUnboundClaim (v1.36), where no volume was
// found.
func decideUnmatched(facts claimFacts) claimDecision {
	switch {
	case !storagehelpers.PersistentVolumeClaimHasClass(facts.claim) && facts.defaultClass != nil:
		return claimDecision{action: claimSetClass, class: facts.defaultClass}
	case isDelayed(facts.class) && !storagehelpers.IsDelayBindingProvisioning(facts.claim):
		return claimDecision{action: claimSetPending, message: msgDelayed(facts.unscheduled)}
	case storagehelpers.GetPersistentVolumeClaimClass(facts.claim) != "":
		return decideProvision(facts)
	default:
		return claimDecision{action: claimSetPending, message: msgNoVolumes}
	}
}

// decideRequested decides about a claim that is not bound but names a volume.
//
// Differs: a claim may have bound-by-controller but no bind-completed annotation (another client
// removed it) and name a volume of another claim. Upstream then fails the sync and retries
// indefinitely. No progress is possible before one of the two changes, so here an event is recorded
// and the claim is left.
//
// Upstream: pkg/controller/volume/persistentvolume syncUnboundClaim (v1.36), where the user asked
// for a volume.
func decideRequested(facts claimFacts) claimDecision {
	claim, volume := facts.claim, facts.volume
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

// decideBound decides about a claim that was bound. A Lost claim becomes bound again when its
// volume exists again.
//
// Upstream: pkg/controller/volume/persistentvolume syncBoundClaim (v1.36).
func decideBound(facts claimFacts) claimDecision {
	claim, volume := facts.claim, facts.volume
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

func (c *Controller) applyClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	decision claimDecision,
) error {
	switch decision.action {
	case claimRecord:
		if decision.message != (message{}) {
			c.recordOnce(claim.UID, claim, decision.message)
		}
		return nil
	case claimSetPending:
		if decision.message != (message{}) {
			c.recordOnce(claim.UID, claim, decision.message)
		}
		_, err := c.writeClaimStatus(ctx, claim, corev1.ClaimPending, nil)
		return err
	case claimBind:
		if c.isBeingReclaimed(decision.volume, queueItem{c.claimQueue, c.claims.key(claim)}) {
			return nil
		}
		return c.bind(ctx, decision.volume, claim)
	case claimSetLost:
		return c.setLost(ctx, claim, decision.message)
	case claimSetClass:
		return c.setClass(ctx, claim, decision.class)
	case claimRequestExternal:
		return c.requestExternal(ctx, claim, decision)
	case claimProvision:
		c.startProvisioning(claim, decision.class, decision.provisioner.plugin)
		return nil
	default:
		panic(fmt.Sprintf("pvcontroller: claim action %d", decision.action))
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

// checkSuitable returns why a volume does not satisfy a claim that names it, or nil. The claim's
// selector is ignored. The texts appear in events.
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
