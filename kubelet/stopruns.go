package kubelet

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
)

// reasonFailedPreStop is the reason of the event for a hook that has failed.
//
// Upstream: pkg/kubelet/events FailedPreStopHook (v1.36).
const reasonFailedPreStop = "FailedPreStopHook"

// stopRuns asks the containers of a pod to end, and reports whether all have. The pod, which is nil if it does not exist any
// more, is requeued when one does. Sidecar containers end after the others; see turnOf.
//
// Upstream: pkg/kubelet/kuberuntime killContainersWithSyncResult, pkg/kubelet SyncTerminatingPod (v1.36).
func (k *Kubelet) stopRuns(uid types.UID, pod *corev1.Pod) bool {
	if k.cfg.Containers == nil {
		return true
	}
	done := true
	runs := k.cfg.Containers.Runs(uid)
	for _, run := range runs {
		if k.cfg.Containers.State(run).Exited {
			delete(k.stopping, run)
			continue
		}
		done = false
		c := containerOf(pod, run.Container)
		if c != nil && !k.stopping[run] {
			k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeNormal, reasonKilling, "Stopping container "+c.Name)
		}
		k.stopInTurn(pod, c, run, graceOf(pod), k.turnOf(pod, c, runs))
	}
	return done
}

// turnOf returns the runs after whose end a container of a pod is stopped. A sidecar container waits for the containers that
// are not init containers, and for the next sidecar container; any other waits for none.
//
// Upstream: pkg/kubelet/kuberuntime newTerminationOrdering (v1.36).
func (k *Kubelet) turnOf(pod *corev1.Pod, c *corev1.Container, runs []container.Run) []container.Run {
	if c == nil || !isInit(pod, c.Name) || !isSidecar(c) {
		return nil
	}
	next, found := "", false
	for i := range pod.Spec.InitContainers {
		other := &pod.Spec.InitContainers[i]
		if found && isSidecar(other) {
			next = other.Name
			break
		}
		found = found || other.Name == c.Name
	}
	var before []container.Run
	for _, run := range runs {
		isMain := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == run.Container })
		if (isMain || run.Container == next) && !k.cfg.Containers.State(run).Exited {
			before = append(before, run)
		}
	}
	return before
}

// stopRun asks a container to end, as stopInTurn does for one that waits for no other.
func (k *Kubelet) stopRun(pod *corev1.Pod, c *corev1.Container, run container.Run, grace time.Duration) {
	k.stopInTurn(pod, c, run, grace, nil)
}

// stopInTurn asks a container to end: first its hook is executed, then it waits for the end of the runs before it. Both take
// their time of the grace. c is nil if the pod does not exist any more: there is no hook.
//
// Upstream: pkg/kubelet/kuberuntime killContainer, executePreStopHook, terminationOrdering.waitForTurn (v1.36).
func (k *Kubelet) stopInTurn(pod *corev1.Pod, c *corev1.Container, run container.Run, grace time.Duration, before []container.Run) {
	hook := (*corev1.LifecycleHandler)(nil)
	if c != nil && c.Lifecycle != nil && grace > 0 {
		hook = c.Lifecycle.PreStop
	}
	if hook != nil && hook.Exec == nil && hook.Sleep == nil {
		hook = nil
	}
	if grace <= 0 || hook == nil && len(before) == 0 && !k.waiting[run] {
		k.stopping[run] = true
		k.cfg.Containers.Stop(run, grace)
		return
	}
	if k.stopping[run] {
		return
	}
	k.stopping[run], k.waiting[run] = true, true
	k.cfg.Process.Spawn("stop of "+run.Container, func(context.Context) {
		end := k.cfg.Process.Now().Add(grace)
		if hook != nil {
			if err := k.executeHook(hook, run, grace); err != "" {
				k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeWarning, reasonFailedPreStop, err)
			}
		}
		if left := end.Sub(k.cfg.Process.Now()); left > 0 && len(before) > 0 {
			k.cfg.Process.Wait("turn of "+run.Container, left, func() bool {
				return !slices.ContainsFunc(before, func(r container.Run) bool { return !k.cfg.Containers.State(r).Exited })
			})
		}
		delete(k.waiting, run)
		k.cfg.Containers.Stop(run, max(minimumGrace, end.Sub(k.cfg.Process.Now())))
	})
}

// stopRest stops what still runs of a pod whose other containers have ended: its sidecar and ephemeral containers. The pod's
// phase is final when they have ended.
//
// Upstream: pkg/kubelet SyncPod, pkg/kubelet/status mergePodStatus (v1.36).
func (k *Kubelet) stopRest(pod *corev1.Pod) {
	if k.isEnding(pod) {
		k.stopRuns(pod.UID, pod)
	}
}

// isEnding reports whether the containers of a pod have ended, as it is reported, or cannot start any more. Those that still run
// are stopped, and none is started.
func (k *Kubelet) isEnding(pod *corev1.Pod) bool {
	if k.cfg.Containers == nil || pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
		return false
	}
	if initFailed(pod, pod.Status.InitContainerStatuses) {
		return true
	}
	for i := range pod.Spec.Containers {
		s := containerNamed(pod.Status.ContainerStatuses, pod.Spec.Containers[i].Name)
		if !hasEnded(pod, &pod.Spec.Containers[i], &s) {
			return false
		}
	}
	return true
}

// someRun reports whether a sidecar or ephemeral container runs.
func someRun(s *corev1.PodStatus) bool {
	runs := func(s corev1.ContainerStatus) bool { return s.State.Running != nil }
	return slices.ContainsFunc(s.InitContainerStatuses, runs) || slices.ContainsFunc(s.EphemeralContainerStatuses, runs)
}

// minimumGrace is what a hook leaves of the grace.
//
// Upstream: pkg/kubelet/kuberuntime minimumGracePeriodInSeconds (v1.36).
const minimumGrace = 2 * time.Second

// executeHook executes a hook in a task of its own, and returns why it has failed, or "".
//
// Differs: HTTP requests are ignored, since containers have no network.
func (k *Kubelet) executeHook(hook *corev1.LifecycleHandler, run container.Run, limit time.Duration) string {
	if hook.Sleep != nil {
		k.cfg.Process.Sleep(min(limit, time.Duration(hook.Sleep.Seconds)*time.Second))
		return ""
	}
	if code, _, err := k.exec(run, hook.Exec.Command, limit); err != nil || code != 0 {
		return "PreStopHook failed"
	}
	return ""
}
