package kubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isInit reports whether a container is an init container.
func isInit(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container })
}

// isSidecar reports whether an init container is always restarted.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// initStatuses returns the statuses of the init containers, which run one after the other, and whether
// all have done their work.
//
// Upstream: pkg/kubelet/kuberuntime computeInitContainerActions (v1.36).
func (k *Kubelet) initStatuses(
	pod *corev1.Pod, l lifecycle, now metav1.Time,
) (all []corev1.ContainerStatus, initialized bool) {
	initialized = true
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		var s corev1.ContainerStatus
		if isSidecar(c) {
			s = k.sidecarStatus(pod, c, l, initialized, now)
		} else {
			s = k.initStatus(pod, c, l, initialized, now)
		}
		all = append(all, s)
		initialized = initialized && (isInitialized(c, &s) || isSidecar(c) && l == running && k.isEnding(pod))
	}
	return all, initialized
}

// initStatus returns the status of an init container. next says that all before it have done their
// work. One that no annotation names is done at once.
func (k *Kubelet) initStatus(
	pod *corev1.Pod, c *corev1.Container, l lifecycle, next bool, now metav1.Time,
) corev1.ContainerStatus {
	old := containerNamed(pod.Status.InitContainerStatuses, c.Name)
	s := k.nextStatus(c, &old)
	last := lastRun(&old)
	if last != nil && k.isOfEarlierBoot(&old) { // init containers run again after a boot
		s.RestartCount++
		s.LastTerminationState.Terminated = last
		old.State, last = corev1.ContainerState{}, nil
	}
	runs, no := k.lifecycleOf(pod) == running, false
	s.Started = &no
	named := k.runsExit(pod, c)
	switch {
	case next && l == running && (named || old.ContainerID != ""):
		k.advance(pod, c, &s, &old, now)
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	case next && l >= running && runs && last != nil:
		s.State.Terminated, s.Ready = last, last.ExitCode == 0
	case next && l == ended && runs && old.State.Running != nil:
		s.State.Terminated = k.stoppedWith(pod, &old, killedExit, now)
	case next && (l == running || l == ended && runs && !named):
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}
		s.Ready = true
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
	}
	return s
}

// sidecarStatus returns the status of a sidecar container. next says that all init containers before it
// have done their work.
func (k *Kubelet) sidecarStatus(
	pod *corev1.Pod, c *corev1.Container, l lifecycle, next bool, now metav1.Time,
) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	old := containerNamed(pod.Status.InitContainerStatuses, c.Name)
	runs := k.lifecycleOf(pod) == running
	started := next && l == running
	s.Started, s.Ready = &started, started
	if l == running && old.Name != "" && k.isEnding(pod) {
		return k.endingStatus(pod, &old, now)
	}
	if k.cfg.Containers != nil && (started || old.State.Running != nil) {
		s = k.nextStatus(c, &old)
		if started {
			k.advance(pod, c, &s, &old, now)
		} else {
			s.Started, s.State.Terminated = &started, k.stoppedWith(pod, &old, 0, now)
		}
		return s
	}
	switch {
	case started && runs && old.State.Running != nil:
		return old
	case started:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
	case next && l == ended && runs:
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
	}
	return s
}

// endingStatus returns the status of a sidecar container that is not restarted any more.
func (k *Kubelet) endingStatus(pod *corev1.Pod, old *corev1.ContainerStatus, now metav1.Time) corev1.ContainerStatus {
	if old.State.Running == nil {
		return *old
	}
	t := &corev1.ContainerStateTerminated{Reason: lostReason, Message: lostMessage, ExitCode: lostExit}
	if !k.containerStopped(old) {
		t = k.exitOf(pod, old, now)
	}
	if t == nil {
		return *old
	}
	s, no := *old, false
	s.State, s.Started, s.Ready = corev1.ContainerState{Terminated: t}, &no, false
	return s
}

// endSidecars ends the sidecar containers of a pod that has ended.
func endSidecars(pod *corev1.Pod, statuses []corev1.ContainerStatus, now metav1.Time) {
	for i := range statuses {
		s := &statuses[i]
		if isSidecar(&pod.Spec.InitContainers[i]) && s.State.Running != nil {
			no := false
			s.Started, s.Ready = &no, false
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: s.State.Running.StartedAt, FinishedAt: now,
			}}
		}
	}
}

// isInitialized reports whether an init container has done its work: it has succeeded, or is a sidecar
// container that runs.
//
// Upstream: pkg/kubelet/status isInitContainerInitialized (v1.36).
func isInitialized(c *corev1.Container, s *corev1.ContainerStatus) bool {
	if isSidecar(c) {
		return s.Started != nil && *s.Started
	}
	return s.Ready
}

// incompleteOf returns the names of the init containers that have not done their work.
func incompleteOf(pod *corev1.Pod, s *corev1.PodStatus) []string {
	var names []string
	for i := range s.InitContainerStatuses {
		if c := &pod.Spec.InitContainers[i]; !isInitialized(c, &s.InitContainerStatuses[i]) {
			names = append(names, c.Name)
		}
	}
	return names
}

// initFailed reports whether an init container has failed that is not restarted.
func initFailed(pod *corev1.Pod, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		if s := &statuses[i]; hasFailed(*s) && hasEnded(pod, &pod.Spec.InitContainers[i], s) {
			return true
		}
	}
	return false
}
