package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A lifecycle is the state of a pod's containers. They start all at once, when the volumes are
// mounted, and end at once, without an error, when the pod is deleted. Those that exit earlier do so
// while the others run; see byhand.go.
type lifecycle int

const (
	unreported lifecycle = iota // nothing was reported of them
	creating                    // they wait for volumes
	running
	ended
)

// reportLifecycle reports the state of a pod's containers. The first report of a process, and one after
// a failure, conflicts if the pod has changed since: a kubelet that restarted from an old list, or whose
// last report was lost, may not know that the pod has ended.
//
// Differs: upstream's kubelet knows its containers from their runtime, but after a reboot nothing
// keeps it from restarting a pod that has ended.
func (k *Kubelet) reportLifecycle(ctx context.Context, pod *corev1.Pod, l lifecycle) error {
	version := ""
	if k.reports[pod.UID] == "" {
		version = pod.ResourceVersion
	}
	status := k.statusOf(pod, l)
	if err := k.reportPod(ctx, pod, status, version); err != nil {
		return err
	}
	k.lifecycles[pod.UID] = l
	if l == running {
		k.reportNotExecuted(pod)
	}
	k.startRuns(pod, &status)
	k.restartLater(pod, &status)
	k.prepareWanted(pod)
	return nil
}

// lifecycleOf returns the state of a pod's containers as last reported, by this kubelet or an
// earlier one. Containers that ran before the last boot are unreported again, and those that wait
// again since then do not run.
func (k *Kubelet) lifecycleOf(pod *corev1.Pod) lifecycle {
	switch l, known := k.lifecycles[pod.UID]; {
	case known:
		return l
	case finished(pod):
		return ended
	case pod.Status.Phase == corev1.PodRunning && !k.stoppedByBoot(pod) && !waitsAgain(pod):
		return running
	default:
		return unreported
	}
}

// stoppedByBoot reports whether the pod's containers ran before the last boot.
func (k *Kubelet) stoppedByBoot(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s := containerNamed(pod.Status.ContainerStatuses, c.Name)
		if k.containerStopped(&s) || lastRun(&s) != nil && k.isOfEarlierBoot(&s) && !hasEnded(pod, c, &s) {
			return true
		}
	}
	return false
}

// waitsAgain reports whether a container of a pod that has run waits for volumes.
func waitsAgain(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.State.Waiting != nil && lastRun(&s) == nil })
}

// containerStopped reports whether a container ran until the last boot.
func (k *Kubelet) containerStopped(s *corev1.ContainerStatus) bool {
	return s.State.Running != nil && k.isOfEarlierBoot(s)
}

func (k *Kubelet) isOfEarlierBoot(s *corev1.ContainerStatus) bool {
	return s.ContainerID != "" && !strings.HasPrefix(s.ContainerID, k.containerPrefix())
}

// containerPrefix returns the prefix of the container IDs since the last boot.
func (k *Kubelet) containerPrefix() string { return "volsim://" + k.cfg.BootID + "/" }

// statusOf returns the status of a pod with containers in a state.
//
// Upstream: pkg/kubelet generateAPIPodStatus, getPhase, pkg/kubelet/status TerminatePod (v1.36).
func (k *Kubelet) statusOf(pod *corev1.Pod, l lifecycle) corev1.PodStatus {
	now := metav1.NewTime(k.cfg.Process.Now())
	s := corev1.PodStatus{StartTime: pod.Status.StartTime}
	if s.StartTime == nil {
		s.StartTime = &now
	}
	inits, initialized := k.initStatuses(pod, l, now)
	s.InitContainerStatuses = inits
	ofContainers := l
	if !initialized && (l == running || l == ended && k.lifecycleOf(pod) == running) {
		ofContainers = creating // they wait for the init containers
	}
	for i := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, k.containerStatus(pod, &pod.Spec.Containers[i], ofContainers, now))
	}
	s.EphemeralContainerStatuses = k.ephemeralStatuses(pod, l, now)
	s.Phase = k.phaseOf(pod, l, &s, initialized)
	held := k.cfg.Containers != nil && l == running && isTerminal(s.Phase) && !finished(pod) && someRun(&s)
	if isTerminal(s.Phase) && !held {
		l = ended
		endSidecars(pod, s.InitContainerStatuses, now)
	}
	addFailures(k.preparations[pod.UID], s.InitContainerStatuses)
	addFailures(k.preparations[pod.UID], s.ContainerStatuses)
	addFailures(k.ephemerals[pod.UID], s.EphemeralContainerStatuses)
	k.setAddresses(pod, &s, l)
	s.Conditions = conditionsOf(pod, &s, l, now)
	if held { // until what still runs has ended
		s.Phase = pod.Status.Phase
	}
	return s
}

// phaseOf returns the phase of a pod with containers in a state. A terminal phase is final. A pod
// succeeds only if its containers have run until now or have exited without an error.
func (k *Kubelet) phaseOf(pod *corev1.Pod, l lifecycle, s *corev1.PodStatus, initialized bool) corev1.PodPhase {
	switch {
	case finished(pod):
		return pod.Status.Phase
	case l == ended && k.lifecycleOf(pod) == running && initialized && !slices.ContainsFunc(s.ContainerStatuses, hasFailed):
		return corev1.PodSucceeded
	case l == ended || initFailed(pod, s.InitContainerStatuses):
		return corev1.PodFailed
	case l == running && initialized && (pod.Status.Phase == corev1.PodRunning || !slices.ContainsFunc(s.ContainerStatuses, neverStarted)):
		return phaseOfContainers(pod, s.ContainerStatuses)
	case pod.Status.Phase == corev1.PodRunning:
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

// neverStarted reports whether a container has not run yet.
func neverStarted(s corev1.ContainerStatus) bool {
	return s.State.Waiting != nil && s.LastTerminationState.Terminated == nil
}

// hasFailed reports whether a container has exited with an error.
func hasFailed(s corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && s.State.Terminated.ExitCode != 0
}

// waitingReason returns what containers wait for that were not created yet.
func waitingReason(pod *corev1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}

func (k *Kubelet) containerStatus(pod *corev1.Pod, c *corev1.Container, l lifecycle,
	now metav1.Time,
) corev1.ContainerStatus {
	old := containerNamed(pod.Status.ContainerStatuses, c.Name)
	s := k.nextStatus(c, &old)
	if l == running {
		k.advance(pod, c, &s, &old, now)
		return s
	}
	started := false
	s.Started = &started
	last := lastRun(&old)
	switch {
	case hasEnded(pod, c, &old):
		return old
	case l == ended && last != nil:
		s.State.Terminated = last
	case last != nil:
		s.RestartCount++
		s.LastTerminationState.Terminated = last
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
	case l == ended && k.lifecycleOf(pod) == running:
		s.State.Terminated = k.stoppedWith(pod, &old, 0, now)
	case l == ended && s.LastTerminationState.Terminated != nil:
		s.State.Terminated = &corev1.ContainerStateTerminated{
			Reason:  lostReason,
			Message: lostMessage, ExitCode: lostExit,
		}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
	}
	return s
}

// nextStatus returns the status of a container without its state, and counts a run that a boot has ended.
func (k *Kubelet) nextStatus(c *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	s := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image,
		RestartCount: old.RestartCount, LastTerminationState: old.LastTerminationState, ContainerID: old.ContainerID,
	}
	if k.containerStopped(old) {
		s.RestartCount++
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason:   lostReason,
			Message:  "The container could not be located when the pod was deleted.  The container used to be Running",
			ExitCode: lostExit,
		}
	}
	return s
}

// Reason, message and exit code of containers whose result is unknown; exit code of those that are killed.
//
// Upstream: pkg/kubelet/container ContainerReasonStatusUnknown (v1.36).
const (
	lostReason  = "ContainerStatusUnknown"
	lostMessage = "The container could not be located when the pod was terminated"
	lostExit    = 137
	killedExit  = 137
)

func containerNamed(all []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return corev1.ContainerStatus{}
	}
	return all[i]
}

// conditionsOf returns the conditions that a kubelet sets. Transition times are kept from the pod.
//
// Upstream: pkg/kubelet/status GeneratePodReadyCondition and its like (v1.36).
func conditionsOf(pod *corev1.Pod, s *corev1.PodStatus, l lifecycle, now metav1.Time) []corev1.PodCondition {
	unready := unreadyOf(pod, s)
	ready := corev1.PodCondition{Status: status(len(unready) == 0)}
	initialized := corev1.PodCondition{Status: corev1.ConditionTrue}
	switch {
	case s.Phase == corev1.PodSucceeded:
		ready.Reason, initialized.Reason = "PodCompleted", "PodCompleted"
	case s.Phase == corev1.PodFailed:
		ready.Reason = "PodFailed"
	case len(unready) > 0:
		ready.Reason = "ContainersNotReady"
		ready.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	if incomplete := incompleteOf(pod, s); len(incomplete) > 0 && s.Phase != corev1.PodSucceeded &&
		!slices.ContainsFunc(s.ContainerStatuses, hasStarted) {
		initialized = corev1.PodCondition{
			Status: corev1.ConditionFalse, Reason: "ContainersNotInitialized",
			Message: fmt.Sprintf("containers with incomplete status: %s", incomplete),
		}
	}
	sandbox := corev1.PodCondition{
		Type:   corev1.PodReadyToStartContainers,
		Status: status(l == running || cannotCreate(s)),
	}
	initialized.Type, ready.Type = corev1.PodInitialized, corev1.PodReady
	containersReady := ready
	containersReady.Type = corev1.ContainersReady
	if gates := missingGates(pod); ready.Status == corev1.ConditionTrue && len(gates) > 0 {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(gates, ", ")
	}
	all := []corev1.PodCondition{
		sandbox, initialized, ready, containersReady, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	for i := range all {
		all[i].LastTransitionTime = now
		for _, old := range pod.Status.Conditions {
			if old.Type == all[i].Type && old.Status == all[i].Status {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return all
}

// missingGates returns, for each readiness gate of a pod whose condition is not True, a message.
func missingGates(pod *corev1.Pod) []string {
	var missing []string
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		if i < 0 {
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		} else if is := pod.Status.Conditions[i].Status; is != corev1.ConditionTrue {
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, is))
		}
	}
	return missing
}

// unreadyOf returns the names of the sidecar containers and containers of a pod that are not ready.
func unreadyOf(pod *corev1.Pod, s *corev1.PodStatus) []string {
	var names []string
	for i := range s.InitContainerStatuses {
		if c := &s.InitContainerStatuses[i]; !c.Ready && isSidecar(&pod.Spec.InitContainers[i]) {
			names = append(names, c.Name)
		}
	}
	for i := range s.ContainerStatuses {
		if c := &s.ContainerStatuses[i]; !c.Ready {
			names = append(names, c.Name)
		}
	}
	return names
}

// hasStarted reports whether a container runs or has exited.
//
// Upstream: pkg/kubelet/container HasAnyRegularContainerStarted (v1.36).
func hasStarted(s corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil
}

// cannotCreate reports whether a container could not be created although the pod's volumes are
// mounted.
func cannotCreate(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainerStatuses,
		s.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && (c.State.Waiting.Reason == reasonConfigError || c.State.Waiting.Reason == reasonInvalidImage)
	})
}

func status(holds bool) corev1.ConditionStatus {
	if holds {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// A podPatch is a patch of the status of a pod. Its UID protects another pod of the same name.
type podPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Status statusPatch `json:"status"`
}

// A statusPatch is a pod status as a patch. It clears reasons and messages that conditions no
// longer have.
type statusPatch struct {
	corev1.PodStatus
	Conditions []conditionPatch `json:"conditions,omitempty"`
}

type conditionPatch struct {
	corev1.PodCondition
	Reason  *string `json:"reason"`
	Message *string `json:"message"`
}

// reportPod writes a pod's status, unless the pod has been deleted. If version is not empty, it must
// be the pod's resourceVersion.
func (k *Kubelet) reportPod(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus, version string) error {
	p := podPatch{Status: statusPatch{PodStatus: status, Conditions: make([]conditionPatch, len(status.Conditions))}}
	p.Metadata.UID, p.Metadata.ResourceVersion = pod.UID, version
	for i := range status.Conditions {
		is, to := &status.Conditions[i], &p.Status.Conditions[i]
		to.PodCondition = *is
		if is.Reason != "" {
			to.Reason = &is.Reason
		}
		if is.Message != "" {
			to.Message = &is.Message
		}
	}
	patch, err := json.Marshal(&p)
	if err != nil {
		return fmt.Errorf("patch of pod status: %w", err)
	}
	reported, err := k.cfg.Client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		k.reports[pod.UID] = reported.ResourceVersion
	case apierrors.IsNotFound(err):
		return nil // the pod has been deleted
	default:
		delete(k.reports, pod.UID) // it may have taken effect
	}
	return err // on a conflict another pod has the name: the cache will show it
}
