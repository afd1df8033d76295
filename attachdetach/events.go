package attachdetach

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// The reasons of this controller's events. Upstream has none for a detach; this controller records
// one if a plugin panics.
//
// Upstream: pkg/kubelet/events (v1.36).
const (
	reasonFailedAttach = "FailedAttachVolume"
	reasonAttached     = "SuccessfulAttachVolume"
	reasonFailedDetach = "FailedDetachVolume"
)

// message returns an event message in upstream's form. Without details it ends in a space.
func message(what string, spec *plugins.Spec, details string) string {
	return fmt.Sprintf("%s for volume %q %s", what, spec.Name(), details)
}

func attachedMessage(spec *plugins.Spec) string {
	return message("AttachVolume.Attach succeeded", spec, "")
}

func attachFailedMessage(spec *plugins.Spec, err error) string {
	return message("AttachVolume.Attach failed", spec, fmt.Sprintf(": %v", err))
}

func detachFailedMessage(a *attachedVolume, err error) string {
	return fmt.Sprintf("DetachVolume.Detach failed for volume %q : %v", a.Volume, err)
}

// multiAttachMessage returns the multi-attach message for a pod. It names the other pods in the
// pod's namespace, and counts those in other namespaces.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reportMultiAttachError (v1.36).
func multiAttachMessage(spec *plugins.Spec, pod *corev1.Pod, others []*corev1.Pod) string {
	const what = "Multi-Attach error"
	if len(others) == 0 {
		return message(what, spec,
			"Volume is already exclusively attached to one node and can't be attached to another")
	}
	var names []string
	for _, other := range others {
		if other.Namespace == pod.Namespace {
			names = append(names, other.Name)
		}
	}
	elsewhere := len(others) - len(names)
	if len(names) == 0 {
		return message(what, spec,
			fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", elsewhere))
	}
	details := "Volume is already used by pod(s) " + strings.Join(names, ", ")
	if elsewhere > 0 {
		details += fmt.Sprintf(" and %d pod(s) in different namespaces", elsewhere)
	}
	return message(what, spec, details)
}

// recordEvents records one event for each pod.
func (c *Controller) recordEvents(pods []*corev1.Pod, eventType, reason string, text func(pod *corev1.Pod) string) {
	for _, pod := range pods {
		c.cfg.Recorder.Event(pod, eventType, reason, text(pod))
	}
}

// sameText returns a function that returns text for each pod.
func sameText(text string) func(*corev1.Pod) string {
	return func(*corev1.Pod) string { return text }
}
