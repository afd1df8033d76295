package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/resourceversion"
)

// Annotations of pods that say how their containers behave if nothing runs them. They may
// be in the template of a pod, and may be set, changed and removed at any time. A value applies to
// all containers of the pod, except init containers; CONTAINER=VALUE applies to one. Several are
// separated by blanks: "true proxy=false".
const (
	// ReadyAnnotation says whether containers are ready while they run: "false" or "true", which is
	// the default. It stands for a readiness probe.
	ReadyAnnotation = "volsim.dev/ready"

	// ExitCodesAnnotation says with which codes containers exit, as a list with one element for
	// each run of the container: "1,0" means that the first run exits with 1 and the second with 0.
	// A run with an empty element, or without one, does not end. The first run is the one with
	// restartCount 0. A container that has exited is restarted as its restart policy says, so a list
	// that a user extends ends the next run.
	//
	// A run of an init container without an element exits with 0: "seed=1" means that the first run
	// of the init container seed exits with 1 and the second with 0. With "seed=" the first run does
	// not end. Sidecar containers do not exit.
	ExitCodesAnnotation = "volsim.dev/exit-codes"
)

// reasonInvalidAnnotation is the reason of the event for an annotation that cannot be read.
const reasonInvalidAnnotation = "InvalidAnnotation"

// annotated returns the value of an annotation for a container, and whether the annotation names it.
func annotated(pod *corev1.Pod, annotation, container string) (value string, named bool) {
	for field := range strings.FieldsSeq(pod.Annotations[annotation]) {
		if name, one, names := strings.Cut(field, "="); !names {
			value = field
		} else if name == container {
			return one, true
		}
	}
	return value, false
}

// isReady reports whether a container is ready while it runs.
func isReady(pod *corev1.Pod, container string) (bool, error) {
	value, _ := annotated(pod, ReadyAnnotation, container)
	ready, err := strconv.ParseBool(value)
	if err != nil && value != "" {
		return true, fmt.Errorf("annotation %s: container %q: %q: want true or false", ReadyAnnotation, container, value)
	}
	return ready || value == "", nil
}

// exitCode returns the code with which a run of a container exits, and whether it does.
func exitCode(pod *corev1.Pod, container string, run int32) (code int32, exits bool, err error) {
	value, named := annotated(pod, ExitCodesAnnotation, container)
	codes := strings.Split(value, ",")
	switch {
	case isInit(pod, container) && (!named || int(run) >= len(codes)):
		return 0, true, nil
	case int(run) >= len(codes) || codes[run] == "":
		return 0, false, nil
	}
	n, err := strconv.ParseUint(codes[run], 10, 8)
	if err != nil {
		return 0, false, fmt.Errorf("annotation %s: container %q: %q: want a code from 0 to 255",
			ExitCodesAnnotation, container, codes[run])
	}
	return int32(n), true, nil //nolint:gosec // 8 bits
}

// restarts reports whether a container that exited with a code is restarted.
//
// Upstream: pkg/api/v1/pod ContainerShouldRestart (v1.36).
func restarts(pod *corev1.Pod, c *corev1.Container, code int32) bool {
	if code == 0 && isInit(pod, c.Name) && !isSidecar(c) {
		return false
	}
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		if ruleRestarts(c.RestartPolicyRules, code) {
			return true
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}

// ruleRestarts reports whether the first rule that matches the code restarts the container.
//
// Differs: a rule that restarts all containers of the pod has no effect.
func ruleRestarts(rules []corev1.ContainerRestartRule, code int32) bool {
	for _, rule := range rules {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, code)
		if listed == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	return false
}

// Back-off of containers that exit again and again.
//
// Upstream: pkg/kubelet initialCrashLoopBackOff, pkg/kubelet/apis/config/v1beta1
// MaxContainerBackOff, pkg/kubelet/images, pkg/kubelet/events BackOffStartContainer (v1.36).
const (
	backOffInitial  = 10 * time.Second
	backOffMax      = 5 * time.Minute
	reasonCrashLoop = "CrashLoopBackOff"
	reasonBackOff   = "BackOff"
)

// backOffOf returns how long a container waits after its last run before it is restarted. The first
// restart is immediate.
//
// Differs: the back-off is that of the restart count, so it survives a restart of the kubelet, but
// not of the node. Upstream's begins again after both, and after a run of ten minutes.
//
// Upstream: pkg/kubelet/kuberuntime doBackOff (v1.36).
func backOffOf(restartCount int32, last *corev1.ContainerStateTerminated) time.Duration {
	if restartCount == 0 || last.FinishedAt.Sub(last.StartedAt.Time) > 2*backOffMax {
		return 0
	}
	delay := backOffInitial
	for i := int32(1); i < restartCount && delay < backOffMax; i++ {
		delay *= 2
	}
	return min(delay, backOffMax)
}

// lastRun returns how the last run of a container ended that does not run now and may be restarted.
// nil means that the container runs, or has not run yet, or waits to run again after a boot.
func lastRun(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if waitsToRestart(s) {
		return s.LastTerminationState.Terminated
	}
	return s.State.Terminated
}

// waitsToRestart reports whether a container has exited and waits for its next run.
func waitsToRestart(s *corev1.ContainerStatus) bool {
	return isCrashLoop(s) || s.State.Waiting != nil && s.State.Waiting.Reason == reasonPostStartError
}

// isCrashLoop reports whether a container waits for the end of its back-off.
func isCrashLoop(s *corev1.ContainerStatus) bool {
	return s.State.Waiting != nil && s.State.Waiting.Reason == reasonCrashLoop
}

// allStatuses returns the statuses of the init containers, containers and ephemeral containers of a pod.
func allStatuses(s *corev1.PodStatus) []corev1.ContainerStatus {
	return slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses)
}

// hasEnded reports whether a container has exited and is not restarted.
func hasEnded(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && !restarts(pod, c, s.State.Terminated.ExitCode)
}

// MustAdvance reports whether a container of a running pod exits next, as the annotation says, or is
// restarted: the kubelet has something left to do for the pod.
func (k *Kubelet) MustAdvance(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if i < 0 {
			return false
		}
		s := &pod.Status.ContainerStatuses[i]
		if s.State.Running == nil {
			return lastRun(s) != nil && !hasEnded(pod, &c, s)
		}
		return k.exitOf(pod, s, metav1.Time{}) != nil
	})
}

// advance sets the state of a container that should run. s is a copy of its status before, without
// the state.
//
// Upstream: pkg/kubelet/kuberuntime computePodActions, doBackOff (v1.36).
func (k *Kubelet) advance(pod *corev1.Pod, c *corev1.Container, s, old *corev1.ContainerStatus, now metav1.Time) {
	switch last := lastRun(old); {
	case hasEnded(pod, c, old):
		*s = *old
		return
	case old.State.Running != nil && !k.containerStopped(old):
		if s.State.Terminated = k.exitOf(pod, old, now); s.State.Terminated != nil {
			break
		}
		s.State.Running = old.State.Running
	case last == nil:
		k.launch(pod, c, s, old, now)
	default:
		s.LastTerminationState.Terminated = last
		if delay := backOffOf(old.RestartCount, last); !k.isOfEarlierBoot(old) && now.Time.Before(last.FinishedAt.Add(delay)) {
			s.State.Waiting = &corev1.ContainerStateWaiting{
				Reason: reasonCrashLoop,
				Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
					delay, c.Name, pod.Name, pod.Namespace, pod.UID),
			}
			break
		}
		s.RestartCount++
		k.launch(pod, c, s, old, now)
	}
	started := s.State.Running != nil
	ready := started
	if started {
		run, same := runOf(pod, s), old.State.Running != nil && old.RestartCount == s.RestartCount
		started = k.passes(c, run, startupProbe, same && old.Started != nil && *old.Started)
		ready, _ = isReady(pod, c.Name)
		ready = ready && started && k.passes(c, run, readinessProbe, same && old.Ready)
	}
	s.Started, s.Ready = &started, ready
}

// startPrepared is startContainer if the container is prepared. Otherwise it stays as it is until it is, or waits if
// it cannot be created.
//
// Differs: the restart count of a container that cannot be created is that of its next run.
func (k *Kubelet) startPrepared(pod *corev1.Pod, c *corev1.Container, s, old *corev1.ContainerStatus, now metav1.Time) {
	if k.cfg.Containers == nil || k.isPrepared(pod, c) {
		k.startContainer(pod, s, now)
		return
	}
	k.awaitPreparation(pod, c, s, old)
}

// awaitPreparation sets the state of a container that is not prepared.
func (k *Kubelet) awaitPreparation(pod *corev1.Pod, c *corev1.Container, s, old *corev1.ContainerStatus) {
	if p := k.preparations[pod.UID]; p != nil && p.failures[c.Name] != (failure{}) {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
		return
	}
	if old.Name == "" || k.containerStopped(old) {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
		return
	}
	*s = *old
}

// startContainer sets the state of a container that starts.
func (k *Kubelet) startContainer(pod *corev1.Pod, s *corev1.ContainerStatus, now metav1.Time) {
	s.ContainerID = k.containerID(pod, s)
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
}

// containerID returns the ID of a container's run.
func (k *Kubelet) containerID(pod *corev1.Pod, s *corev1.ContainerStatus) string {
	id := k.containerPrefix() + string(pod.UID) + "/" + s.Name
	if s.RestartCount > 0 {
		id += "/" + strconv.Itoa(int(s.RestartCount))
	}
	return id
}

// syncContainers lets containers of a running pod exit, restarts them, and reports their readiness.
// It decides from the pod's status alone, so it waits until the cache has this kubelet's last
// report, and its own report conflicts if the cache is older than the pod.
//
// Upstream: pkg/kubelet SyncPod, pkg/kubelet/status needsReconcile (v1.36).
func (k *Kubelet) syncContainers(ctx context.Context, pod *corev1.Pod) error {
	if k.cfg.Containers == nil && isSettled(pod) || !k.hasLastReport(pod) {
		return nil
	}
	k.reportInvalid(pod)
	k.prepareEphemeral(pod)
	next := k.statusOf(pod, running)
	defer k.prepareWanted(pod)
	defer k.restartLater(pod, &next)
	k.stopRest(pod)
	if sameReport(&pod.Status, &next) {
		k.startRuns(pod, &next)
		return nil
	}
	if err := k.reportPod(ctx, pod, next, pod.ResourceVersion); err != nil {
		return err
	}
	for _, p := range []*preparation{k.preparations[pod.UID], k.ephemerals[pod.UID]} {
		if p != nil {
			k.recordFailures(pod, p)
		}
	}
	k.lifecycles[pod.UID] = running
	if isTerminal(next.Phase) {
		k.lifecycles[pod.UID] = ended
	}
	k.startRuns(pod, &next)
	before := allStatuses(&pod.Status)
	for _, s := range allStatuses(&next) {
		old := containerNamed(before, s.Name)
		if isCrashLoop(&s) && !isCrashLoop(&old) {
			k.recorder.Event(containerRef(pod, s.Name), corev1.EventTypeWarning, reasonBackOff, fmt.Sprintf(
				"Back-off restarting failed container %s in pod %s_%s(%s)", s.Name, pod.Name, pod.Namespace, pod.UID))
		}
	}
	return nil
}

// isSettled reports whether all containers of a pod run and are ready, as it is reported, and will
// continue to.
func isSettled(pod *corev1.Pod) bool {
	if pod.Annotations[ReadyAnnotation] != "" || pod.Annotations[ExitCodesAnnotation] != "" || len(pod.Spec.ReadinessGates) > 0 ||
		!ephemeralsSettled(pod) {
		return false
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.State.Running == nil || !s.Ready {
			return false
		}
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

// hasLastReport reports whether the pod, as seen, has this kubelet's last report of its status.
func (k *Kubelet) hasLastReport(pod *corev1.Pod) bool {
	last := k.reports[pod.UID]
	if last == "" {
		return true
	}
	order, err := resourceversion.Compare(pod.ResourceVersion, last)
	return err != nil || order >= 0
}

// reportInvalid reports annotations that cannot be read.
func (k *Kubelet) reportInvalid(pod *corev1.Pod) {
	statuses := allStatuses(&pod.Status)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		var ready error
		if !isInit(pod, c.Name) {
			_, ready = isReady(pod, c.Name)
		}
		_, _, code := exitCode(pod, c.Name, containerNamed(statuses, c.Name).RestartCount)
		for _, err := range []error{ready, code} {
			if err != nil {
				k.recorder.Event(pod, corev1.EventTypeWarning, reasonInvalidAnnotation, err.Error())
			}
		}
	}
}

// restartLater requeues a pod for the end of the back-off of its containers.
func (k *Kubelet) restartLater(pod *corev1.Pod, status *corev1.PodStatus) {
	for _, s := range allStatuses(status) {
		if waitsToRestart(&s) && !k.hookExecutes(pod, &s) {
			last := s.LastTerminationState.Terminated
			end := last.FinishedAt.Add(backOffOf(s.RestartCount, last))
			if delay := end.Sub(k.cfg.Process.Now()); delay > 0 { // otherwise it is being prepared
				k.pods.AddAfter(pod.UID, delay)
			}
		}
	}
}

// sameReport reports whether a status says what the pod's own says.
func sameReport(was, is *corev1.PodStatus) bool {
	if was.Phase != is.Phase || !apiequality.Semantic.DeepEqual(was.ContainerStatuses, is.ContainerStatuses) ||
		!apiequality.Semantic.DeepEqual(was.InitContainerStatuses, is.InitContainerStatuses) ||
		len(was.EphemeralContainerStatuses)+len(is.EphemeralContainerStatuses) > 0 &&
			!apiequality.Semantic.DeepEqual(was.EphemeralContainerStatuses, is.EphemeralContainerStatuses) {
		return false
	}
	for _, to := range is.Conditions {
		at := slices.IndexFunc(was.Conditions, func(c corev1.PodCondition) bool { return c.Type == to.Type })
		if at < 0 {
			return false
		}
		if c := &was.Conditions[at]; c.Status != to.Status || c.Reason != to.Reason || c.Message != to.Message {
			return false
		}
	}
	return true
}

// phaseOfContainers returns the phase of a pod whose containers have all been started.
//
// Upstream: pkg/kubelet getPhase (v1.36).
func phaseOfContainers(pod *corev1.Pod, containers []corev1.ContainerStatus) corev1.PodPhase {
	phase := corev1.PodSucceeded
	for i := range pod.Spec.Containers {
		s := containerNamed(containers, pod.Spec.Containers[i].Name)
		switch {
		case !hasEnded(pod, &pod.Spec.Containers[i], &s):
			return corev1.PodRunning
		case s.State.Terminated.ExitCode != 0:
			phase = corev1.PodFailed
		}
	}
	return phase
}
