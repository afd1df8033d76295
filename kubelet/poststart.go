package kubelet

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
)

// This file has the hooks that are executed after the start of a container. Until its hook has returned, the status of a
// container stays what it was: it does not run yet.

// Reasons of a container whose hook has failed, in events and in its status.
//
// Upstream: pkg/kubelet/events FailedPostStartHook, pkg/kubelet/kuberuntime ErrPostStartHook (v1.36).
const (
	reasonFailedPostStart = "FailedPostStartHook"
	reasonPostStartError  = "PostStartHookError"
)

// A postStart is the hook of a run so far.
type postStart struct {
	stage   hookStage
	message string // why it has failed
}

type hookStage int

const (
	hookDue       hookStage = iota // the run must be started
	hookExecuting                  // the run was started
	hookReturned
	hookFailed // the run is being stopped
)

// hasPostStart reports whether a container has a hook that is executed.
//
// Differs: HTTP requests are ignored, since containers have no network.
func hasPostStart(c *corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PostStart != nil && (c.Lifecycle.PostStart.Exec != nil || c.Lifecycle.PostStart.Sleep != nil)
}

// hookOf returns the hook of a run that must be started, or was. nil: nothing must be waited for. An earlier kubelet's hook is
// not executed again.
func (k *Kubelet) hookOf(c *corev1.Container, run container.Run) *postStart {
	if k.cfg.Containers == nil || !hasPostStart(c) {
		return nil
	}
	h := k.postStarts[run]
	if h == nil && !k.cfg.Containers.State(run).Started {
		h = &postStart{}
		k.postStarts[run] = h
	}
	return h
}

// launch sets the state of a container that starts, unless its hook has not returned: then the state stays as before.
func (k *Kubelet) launch(pod *corev1.Pod, c *corev1.Container, s, old *corev1.ContainerStatus, now metav1.Time) {
	h := k.hookOf(c, runOf(pod, s))
	switch {
	case h == nil && !hasPostStart(c):
		k.startPrepared(pod, c, s, old, now)
	case h == nil || h.stage == hookReturned:
		k.startContainer(pod, s, now)
	case h.stage == hookDue && !k.isPrepared(pod, c):
		k.awaitPreparation(pod, c, s, old)
	case h.stage == hookFailed && k.cfg.Containers.State(runOf(pod, s)).Exited:
		s.ContainerID = k.containerID(pod, s)
		s.State.Terminated = k.exitOf(pod, s, now)
		if restarts(pod, c, s.State.Terminated.ExitCode) {
			s.LastTerminationState = corev1.ContainerState{Terminated: s.State.Terminated}
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonPostStartError, Message: h.message}}
		}
	case lastRun(old) == nil:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waitingReason(pod)}
	default:
		*s = *old
	}
}

// hookExecutes reports whether the next run of a container that waits for it was started.
func (k *Kubelet) hookExecutes(pod *corev1.Pod, s *corev1.ContainerStatus) bool {
	next := runOf(pod, s)
	next.Restarts++
	h := k.postStarts[next]
	return h != nil && h.stage != hookReturned
}

// startHooked starts the runs of a pod that have a hook.
func (k *Kubelet) startHooked(pod *corev1.Pod, s *corev1.PodStatus) {
	if len(k.postStarts) == 0 || k.isEnding(pod) {
		return
	}
	for _, status := range allStatuses(s) {
		for run := runOf(pod, &status); run.Restarts <= status.RestartCount+1; run.Restarts++ {
			h := k.postStarts[run]
			if h == nil || h.stage != hookDue {
				continue
			}
			if spec, known := k.specFor(pod, run.Container); known {
				h.stage = hookExecuting
				k.startRun(pod, spec, run)
				k.cfg.Process.Spawn("postStart of "+run.Container, func(context.Context) { k.executePostStart(pod, run, h) })
			}
		}
	}
}

// executePostStart executes the hook of a run, in a task of its own. If it fails, the run is stopped.
//
// Upstream: pkg/kubelet/kuberuntime startContainer (v1.36).
func (k *Kubelet) executePostStart(pod *corev1.Pod, run container.Run, h *postStart) {
	c := containerOf(pod, run.Container)
	h.message = k.runPostStart(pod, c, run)
	h.stage = hookReturned
	if h.message != "" && k.known[pod.UID] != nil {
		h.stage = hookFailed
		k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeWarning, reasonFailedPostStart, "PostStartHook failed")
		k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeNormal, reasonKilling, reasonFailedPostStart)
		k.stopRun(pod, c, run, graceOf(pod))
	}
	k.pods.Add(pod.UID)
}

// runPostStart executes a hook, and returns why it has failed, or "".
//
// Upstream: pkg/kubelet/lifecycle handlerRunner.Run (v1.36).
func (k *Kubelet) runPostStart(pod *corev1.Pod, c *corev1.Container, run container.Run) string {
	hook := c.Lifecycle.PostStart
	if hook.Exec == nil {
		k.cfg.Process.Sleep(time.Duration(hook.Sleep.Seconds) * time.Second)
		return ""
	}
	code, out, err := k.execute(run, hook.Exec.Command, 0)
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' %w %d: %s", strings.Join(hook.Exec.Command, " "), errExitedWith, code, out.Text(container.Stderr))
	}
	if err == nil {
		return ""
	}
	output := ""
	if out != nil {
		output = out.Text(container.Stdout) + out.Text(container.Stderr)
	}
	return fmt.Sprintf("Exec lifecycle hook (%v) for Container %q in Pod %q failed - error: %v, message: %q",
		hook.Exec.Command, c.Name, fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), err, output)
}

// forgetHooks forgets the hooks of a pod.
func (k *Kubelet) forgetHooks(uid types.UID) {
	maps.DeleteFunc(k.postStarts, func(run container.Run, _ *postStart) bool { return run.Pod == uid })
}
