package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
)

// This file has ephemeral containers, which a user adds to a pod that runs already. They run next to the others as
// soon as the pod's volumes are mounted, and are never restarted.

// ephemeralOf returns an ephemeral container as a container.
func ephemeralOf(pod *corev1.Pod, i int) *corev1.Container {
	return (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
}

// ephemeralStatuses returns the statuses of a pod's ephemeral containers. They are never ready.
//
// Upstream: pkg/kubelet/kuberuntime computePodActions, pkg/kubelet convertToAPIContainerStatuses (v1.36).
func (k *Kubelet) ephemeralStatuses(pod *corev1.Pod, l lifecycle, now metav1.Time) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for i := range pod.Spec.EphemeralContainers {
		c := ephemeralOf(pod, i)
		old := containerNamed(pod.Status.EphemeralContainerStatuses, c.Name)
		s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ContainerID: old.ContainerID}
		switch {
		case old.State.Terminated != nil:
			s = old
		case k.containerStopped(&old):
			s.State.Terminated = &corev1.ContainerStateTerminated{Reason: lostReason, Message: lostMessage, ExitCode: lostExit}
		case old.State.Running != nil && l == ended:
			s.State.Terminated = k.stoppedWith(pod, &old, 0, now)
		case old.State.Running != nil:
			if s.State.Terminated = k.exitOf(pod, &old, now); s.State.Terminated == nil {
				s.State.Running = old.State.Running
			}
		case l == running && k.isEphemeralPrepared(pod, c) && !k.isEnding(pod):
			k.startContainer(pod, &s, now)
		default:
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
		}
		all = append(all, s)
	}
	return all
}

// isEphemeralPrepared reports whether an ephemeral container can be started.
func (k *Kubelet) isEphemeralPrepared(pod *corev1.Pod, c *corev1.Container) bool {
	p := k.ephemerals[pod.UID]
	if p == nil {
		return false
	}
	_, prepared := p.specs[c.Name]
	return prepared
}

// prepareEphemeral decides what the ephemeral containers of a pod execute that were not started yet. The pod is requeued when
// it is known.
func (k *Kubelet) prepareEphemeral(pod *corev1.Pod) {
	if len(pod.Spec.EphemeralContainers) == 0 || !k.volumes.Mounted(pod.UID) {
		return
	}
	p := k.ephemerals[pod.UID]
	if p == nil {
		p = &preparation{specs: map[string]container.Spec{}}
		if k.ephemerals == nil {
			k.ephemerals = map[types.UID]*preparation{}
		}
		k.ephemerals[pod.UID] = p
	}
	missing := k.unpreparedEphemerals(pod, p)
	if len(missing) == 0 || p.stage == preparing || p.stage == failed {
		return
	}
	p.stage = preparing
	k.cfg.Process.Spawn("ephemeral containers of "+string(pod.UID), func(ctx context.Context) {
		failures := map[string]failure{}
		for _, c := range missing {
			if why := k.prepareContainer(ctx, pod, c, p); why != (failure{}) {
				failures[c.Name] = why
			}
		}
		p.failures = failures
		k.prepareEnded(pod.UID, p)
	})
}

// unpreparedEphemerals returns the ephemeral containers of a pod that were neither prepared nor started.
func (k *Kubelet) unpreparedEphemerals(pod *corev1.Pod, p *preparation) []*corev1.Container {
	var missing []*corev1.Container
	for i := range pod.Spec.EphemeralContainers {
		c := ephemeralOf(pod, i)
		old := containerNamed(pod.Status.EphemeralContainerStatuses, c.Name)
		_, done := p.specs[c.Name]
		started := old.State.Terminated != nil
		if k.cfg.Containers != nil {
			started = started || k.cfg.Containers.State(container.Run{Pod: pod.UID, Container: c.Name}).Started
		}
		if !done && !started {
			missing = append(missing, c)
		}
	}
	return missing
}

// specFor returns what a container of a pod executes that must be started. The bool is false if that is not known yet; then
// the pod is requeued.
func (k *Kubelet) specFor(pod *corev1.Pod, name string) (container.Spec, bool) {
	if !k.volumes.Mounted(pod.UID) {
		return container.Spec{}, false
	}
	if isEphemeral(pod, name) {
		k.prepareEphemeral(pod)
		spec, known := k.ephemerals[pod.UID].specs[name]
		return spec, known
	}
	if !k.isPrepared(pod, containerOf(pod, name)) {
		return container.Spec{}, false
	}
	return k.preparations[pod.UID].specs[name], true
}

// isEphemeral reports whether a container is an ephemeral container.
func isEphemeral(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}

// ephemeralsSettled reports whether the ephemeral containers of a pod run or have ended, as it is reported.
func ephemeralsSettled(pod *corev1.Pod) bool {
	for i := range pod.Spec.EphemeralContainers {
		s := containerNamed(pod.Status.EphemeralContainerStatuses, pod.Spec.EphemeralContainers[i].Name)
		if s.State.Running == nil && s.State.Terminated == nil {
			return false
		}
	}
	return true
}

// retryPreparation lets a preparation be tried again that has failed.
func (k *Kubelet) retryPreparation(uid types.UID) {
	for _, p := range []*preparation{k.preparations[uid], k.ephemerals[uid]} {
		if p != nil && p.stage == failed {
			p.stage = idle
			k.pods.Add(uid)
		}
	}
}
