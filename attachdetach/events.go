package attachdetach

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// The reasons of this controller's events. Upstream has none for a detach; here there is one for a plugin that panicked.
//
// Upstream: pkg/kubelet/events (v1.36).
const (
	FailedAttachVolume = "FailedAttachVolume"
	reasonAttached     = "SuccessfulAttachVolume"
	reasonFailedDetach = "FailedDetachVolume"
)

// message is upstream's form of what is told about a volume. It has a space at its end where there are no details.
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

// multiAttachMessage tells a pod who else has the volume, as far as the pod's namespace may know.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reportMultiAttachError (v1.36).
func multiAttachMessage(spec *plugins.Spec, pod *corev1.Pod, others []*corev1.Pod) string {
	const what = "Multi-Attach error"
	if len(others) == 0 {
		return message(what, spec, "Volume is already exclusively attached to one node and can't be attached to another")
	}
	var names []string
	for _, other := range others {
		if other.Namespace == pod.Namespace {
			names = append(names, other.Name)
		}
	}
	elsewhere := len(others) - len(names)
	if len(names) == 0 {
		return message(what, spec, fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", elsewhere))
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

// sameText is the same text for each pod.
func sameText(text string) func(*corev1.Pod) string {
	return func(*corev1.Pod) string { return text }
}
