package kubelet

import (
	"context"
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
// more, is requeued when one does.
//
// Differs: sidecar containers end with the others; upstream's end after them.
//
// Upstream: pkg/kubelet/kuberuntime killContainersWithSyncResult, pkg/kubelet SyncTerminatingPod (v1.36).
func (k *Kubelet) stopRuns(uid types.UID, pod *corev1.Pod) bool {
	if k.cfg.Containers == nil {
		return true
	}
	done := true
	for _, run := range k.cfg.Containers.Runs(uid) {
		if k.cfg.Containers.State(run).Exited {
			delete(k.stopping, run)
			continue
		}
		done = false
		if c := containerOf(pod, run.Container); c != nil && !k.stopping[run] {
			k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeNormal, reasonKilling, "Stopping container "+c.Name)
		}
		k.stopRun(pod, containerOf(pod, run.Container), run, graceOf(pod))
	}
	return done
}

// stopRun asks a container to end: first its hook is executed, which takes its time of the grace. c is nil if the pod
// does not exist any more: there is no hook.
//
// Upstream: pkg/kubelet/kuberuntime killContainer, executePreStopHook (v1.36).
func (k *Kubelet) stopRun(pod *corev1.Pod, c *corev1.Container, run container.Run, grace time.Duration) {
	hook := (*corev1.LifecycleHandler)(nil)
	if c != nil && c.Lifecycle != nil && grace > 0 {
		hook = c.Lifecycle.PreStop
	}
	if hook == nil || hook.Exec == nil && hook.Sleep == nil {
		k.stopping[run] = true
		k.cfg.Containers.Stop(run, grace)
		return
	}
	if k.stopping[run] {
		return
	}
	k.stopping[run] = true
	k.cfg.Process.Spawn("preStop of "+run.Container, func(context.Context) {
		began := k.cfg.Process.Now()
		if err := k.executeHook(hook, run, grace); err != "" {
			k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeWarning, reasonFailedPreStop, err)
		}
		k.cfg.Containers.Stop(run, max(minimumGrace, grace-k.cfg.Process.Now().Sub(began)))
	})
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
