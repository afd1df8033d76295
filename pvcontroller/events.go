package pvcontroller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EventSource is the component name in upstream's events.
const EventSource = "persistentvolume-controller"

// The reasons of events, with upstream's spelling.
//
// Upstream: pkg/controller/volume/events (v1.36).
const (
	reasonFailedBinding        = "FailedBinding"
	reasonVolumeMismatch       = "VolumeMismatch"
	reasonWaitForFirstConsumer = "WaitForFirstConsumer"
	reasonWaitForPodScheduled  = "WaitForPodScheduled"
	reasonClaimLost            = "ClaimLost"
	reasonClaimMisbound        = "ClaimMisbound"
	reasonExternalProvisioning = "ExternalProvisioning"
	reasonProvisioningFailed   = "ProvisioningFailed"
	reasonProvisioned          = "ProvisioningSucceeded"
	reasonCleanupFailed        = "ProvisioningCleanupFailed"
	reasonDelete               = "VolumeDelete"
	reasonFailedDelete         = "VolumeFailedDelete"
	reasonFailedRecycle        = "VolumeFailedRecycle"
	reasonRecycled             = "VolumeRecycled"
	reasonRecyclerPod          = "RecyclerPod"
	reasonUnknownPolicy        = "VolumeUnknownReclaimPolicy"
)

// A message is an event without its object. The zero value is no event.
type message struct{ severity, reason, text string }

func normal(reason, text string) message  { return message{corev1.EventTypeNormal, reason, text} }
func warning(reason, text string) message { return message{corev1.EventTypeWarning, reason, text} }

var (
	msgNoVolumes = normal(reasonFailedBinding,
		"no persistent volumes available for this claim and no storage class is set")
	msgFirstConsumer = normal(reasonWaitForFirstConsumer, "waiting for first consumer to be created before binding")
	msgLostReference = warning(reasonClaimLost,
		"Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	msgLostVolume = warning(reasonClaimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	msgMisbound   = warning(reasonClaimMisbound,
		"Two claims are bound to the same volume, this one is bound incorrectly")
	msgRecycled      = normal(reasonRecycled, "Volume recycled")
	msgNoRecycler    = warning(reasonFailedRecycle, "No recycler plugin found for the volume!")
	msgUnknownPolicy = warning(reasonUnknownPolicy, "Volume has unrecognized PersistentVolumeReclaimPolicy")
)

func msgTaken(volume string) message {
	return warning(reasonFailedBinding, fmt.Sprintf("volume %q already bound to a different claim.", volume))
}

func msgUnsuitable(volume, why string) message {
	return warning(reasonVolumeMismatch, fmt.Sprintf("Cannot bind to requested volume %q: %s", volume, why))
}

// msgModeOfVolume is recorded on the volume, msgModeOfClaim on the claim.
func msgModeOfVolume(claim string) message {
	return warning(reasonVolumeMismatch, fmt.Sprintf(
		"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim))
}

func msgModeOfClaim(volume string) message {
	return warning(reasonVolumeMismatch, fmt.Sprintf(
		"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", volume))
}

// msgDelayed returns what a claim of a class with delayed binding waits for: one of the pods, or
// the first pod.
func msgDelayed(pods []string) message {
	switch len(pods) {
	case 0:
		return msgFirstConsumer
	case 1:
		return normal(reasonWaitForPodScheduled, fmt.Sprintf("waiting for pod %s to be scheduled", pods[0]))
	default:
		return normal(reasonWaitForPodScheduled,
			fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(pods, ",")))
	}
}

func msgExternal(provisioner string) message {
	return normal(reasonExternalProvisioning, fmt.Sprintf("Waiting for a volume to be created either by the external "+
		"provisioner '%s' or manually by the system administrator. If volume creation is delayed, please verify that "+
		"the provisioner is running and correctly registered.", provisioner))
}

func msgProvisioning(text string) message { return warning(reasonProvisioningFailed, text) }

func msgProvisioned(volume, plugin string) message {
	return normal(reasonProvisioned, fmt.Sprintf("Successfully provisioned volume %s using %s", volume, plugin))
}

func msgCleanup(claim string, err error) message {
	return warning(reasonCleanupFailed, fmt.Sprintf(
		"Error cleaning provisioned volume for claim %s: %v. Please delete manually.", claim, err))
}

func msgUsedByPods(pods []string) message {
	return normal(reasonFailedRecycle, "Volume is used by pods: "+strings.Join(pods, ","))
}

func msgNoDeleter(volume, why string) message {
	return warning(reasonFailedDelete,
		fmt.Sprintf("error getting deleter volume plugin for volume %q: %s", volume, why))
}

// sentEvents stores the last message that an object's sync recorded on each object, so that a sync
// does not repeat it.
type sentEvents map[types.UID]map[types.UID]message

// recordOnce records an event on an object unless the same sync recorded it last.
//
// Differs: upstream sends its waiting events at every sync, and so raises their counts every 15 s
// while a claim waits. Here a world at rest sends no events.
func (c *Controller) recordOnce(sync types.UID, about object, m message) {
	c.memory.write(partSent, string(sync))
	said := c.sent[sync]
	if said == nil {
		said = map[types.UID]message{}
		c.sent[sync] = said
	}
	if said[about.GetUID()] == m {
		return
	}
	said[about.GetUID()] = m
	c.record(about, m)
}

// clearSent forgets the messages of an object's sync. The next message is recorded even if it is
// the same.
func (c *Controller) clearSent(sync types.UID) {
	c.memory.write(partSent, string(sync))
	delete(c.sent, sync)
}

// recordPanic records the event for an operation that panicked.
func (c *Controller) recordPanic(kind string, about object, err error) {
	reason := map[string]string{
		opProvision: reasonProvisioningFailed, opSave: reasonProvisioningFailed, opClean: reasonCleanupFailed,
		opDelete: reasonFailedDelete, opRecycle: reasonFailedRecycle,
	}[kind]
	c.record(about, warning(reason, err.Error()))
}

// record records an event on an object.
func (c *Controller) record(about runtime.Object, m message) {
	c.cfg.Recorder.Event(about, m.severity, m.reason, m.text)
}
