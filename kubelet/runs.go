package kubelet

import (
	"cmp"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/kubelet/container"
)

// This file connects the statuses of pods with the runs of a container.Runtime. A status is written first. Then
// each run that it shows as running is started, if it was not. A run that has exited is in the next status. A
// kubelet that crashes in between continues there.

// reasonStarted is the reason of the event for a container that was started.
//
// Upstream: pkg/kubelet/events StartedContainer (v1.36).
const reasonStarted = "Started"

// reasonStartError is the reason of a container whose command cannot be executed.
//
// Upstream: containerd internal/cri/server, RunContainerError's state.
const reasonStartError = "StartError"

// An exits is the pods whose runs have changed. The runtime adds them, on any goroutine.
type exits struct {
	mu   sync.Mutex
	pods []types.UID // guarded by mu
}

func (e *exits) add(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.pods, uid) {
		e.pods = append(e.pods, uid)
	}
}

func (e *exits) any() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pods) > 0
}

func (e *exits) take() types.UID {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid := e.pods[0]
	e.pods = e.pods[1:]
	return uid
}

// watchRuns requeues a pod when the state of one of its runs changes.
//
// Upstream: pkg/kubelet/pleg (v1.36).
func (k *Kubelet) watchRuns() {
	if k.cfg.Containers == nil {
		return
	}
	k.probes, k.stopping = map[probeKey]*probe{}, map[container.Run]bool{}
	k.waiting, k.inputs = map[container.Run]bool{}, map[container.Run]*container.Input{}
	k.postStarts = map[container.Run]*postStart{}
	k.watchProbes()
	var changed exits
	k.cfg.Process.Delivery("containers", changed.any, func() { k.pods.Add(changed.take()) })
	k.cfg.Containers.Observe(func(uid types.UID) {
		changed.add(uid)
		k.cfg.Process.Wake()
	})
}

// runOf returns the run that a container's status shows.
func runOf(pod *corev1.Pod, s *corev1.ContainerStatus) container.Run {
	return container.Run{Pod: pod.UID, Container: s.Name, Restarts: s.RestartCount}
}

// exitOf returns how a run has ended that the container's status shows as running; nil if it has not.
func (k *Kubelet) exitOf(pod *corev1.Pod, s *corev1.ContainerStatus, now metav1.Time) *corev1.ContainerStateTerminated {
	if k.cfg.Containers == nil {
		code, exits, _ := exitCode(pod, s.Name, s.RestartCount)
		if !exits {
			return nil
		}
		return terminated(s, code, now)
	}
	state := k.cfg.Containers.State(runOf(pod, s))
	if !state.Exited {
		return nil
	}
	t := terminated(s, state.Code, metav1.NewTime(state.FinishedAt))
	t.StartedAt = metav1.NewTime(state.StartedAt)
	if state.Message != "" {
		t.Reason = reasonStartError
	}
	t.Message = k.messageOf(pod, runOf(pod, s), state)
	return t
}

// terminated returns the state of a container that has run, and has exited with a code.
func terminated(s *corev1.ContainerStatus, code int32, at metav1.Time) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{Reason: "Completed", ExitCode: code, ContainerID: s.ContainerID, FinishedAt: at}
	if s.State.Running != nil {
		t.StartedAt = s.State.Running.StartedAt
	}
	if code != 0 {
		t.Reason = "Error"
	}
	return t
}

// stoppedWith returns how a container has ended whose pod is stopped: as its run has, or with a code if none runs.
func (k *Kubelet) stoppedWith(pod *corev1.Pod, s *corev1.ContainerStatus, code int32, now metav1.Time) *corev1.ContainerStateTerminated {
	if k.cfg.Containers != nil {
		if t := k.exitOf(pod, s, now); t != nil {
			return t
		}
	}
	return terminated(s, code, now)
}

// runsExit reports whether containers exit by themselves, so that each run has to be observed: a runtime runs them,
// or an annotation names the container.
func (k *Kubelet) runsExit(pod *corev1.Pod, c *corev1.Container) bool {
	_, named := annotated(pod, ExitCodesAnnotation, c.Name)
	return named || k.cfg.Containers != nil
}

// startRuns starts the runs that a pod's status shows as running and that were not started. After a restart of the
// kubelet the containers are first prepared again, which requeues the pod.
//
// Upstream: pkg/kubelet/kuberuntime startContainer, pkg/kubelet/events StartedContainer (v1.36).
func (k *Kubelet) startRuns(pod *corev1.Pod, s *corev1.PodStatus) {
	if k.cfg.Containers == nil {
		return
	}
	for _, status := range allStatuses(s) {
		run := runOf(pod, &status)
		if status.State.Running == nil {
			continue
		}
		c := containerOf(pod, status.Name)
		if k.cfg.Containers.State(run).Started {
			k.beginProbes(c, run, &status)
			continue
		}
		if spec, known := k.specFor(pod, status.Name); known {
			k.startRun(pod, spec, run)
			k.beginProbes(c, run, &corev1.ContainerStatus{})
		}
	}
	k.startHooked(pod, s)
}

// startRun starts a run.
func (k *Kubelet) startRun(pod *corev1.Pod, spec container.Spec, run container.Run) {
	spec.Run = run
	k.mountMessage(pod, &spec)
	c := containerOf(pod, run.Container)
	if c.Stdin {
		spec.Stdin = container.NewInput()
		k.inputs[run] = spec.Stdin
	}
	k.cfg.Containers.Start(spec)
	if p := k.preparations[pod.UID]; p != nil {
		delete(p.specs, run.Container)
	}
	k.recorder.Event(containerRef(pod, run.Container), corev1.EventTypeNormal, reasonStarted, "Container started")
	if run.Restarts == 0 {
		k.reportIgnoredProbes(pod, c)
	}
}

// reasonNotExecuted is the reason of the event for commands that nothing executes.
const reasonNotExecuted = "CommandNotExecuted"

// reportNotExecuted reports a pod with commands that nothing executes, since nothing runs containers.
func (k *Kubelet) reportNotExecuted(pod *corev1.Pod) {
	has := func(c corev1.Container) bool { return len(c.Command)+len(c.Args) > 0 }
	if k.cfg.Containers == nil && (slices.ContainsFunc(pod.Spec.InitContainers, has) || slices.ContainsFunc(pod.Spec.Containers, has)) {
		k.recorder.Event(pod, corev1.EventTypeNormal, reasonNotExecuted,
			"Commands of containers are not executed: nothing runs containers in this cluster. Annotation "+ExitCodesAnnotation+" says when they exit")
	}
}

// specOf returns what a container executes and sees.
//
// Upstream: pkg/kubelet GenerateRunContainerOptions (v1.36).
func (k *Kubelet) specOf(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (container.Spec, error) {
	known, err := environment(pod, c, podObjects{ctx, k, pod})
	if err != nil {
		return container.Spec{}, err
	}
	spec := container.Spec{
		Hostname: cmp.Or(pod.Spec.Hostname, pod.Name), WorkingDir: c.WorkingDir, TTY: c.TTY, Env: known.list(),
		Memory: c.Resources.Limits.Memory().Value(),
	}
	for _, arg := range slices.Concat(c.Command, c.Args) {
		spec.Args = append(spec.Args, expand(arg, known.lookup))
	}
	if len(c.Command) == 0 {
		spec.Args = imageArgs(c.Image, spec.Args)
	}
	setSecurity(&spec, pod.Spec.SecurityContext, c.SecurityContext)
	for i := range c.VolumeMounts {
		mount, err := k.mountOf(pod, c, i)
		if err != nil {
			return container.Spec{}, err
		}
		spec.Mounts = append(spec.Mounts, mount)
	}
	slices.SortStableFunc(spec.Mounts, func(a, b container.Mount) int { return strings.Compare(a.Path, b.Path) })
	for _, device := range c.VolumeDevices {
		volume, err := k.mountedVolume(pod, c, device.Name, true)
		if err != nil {
			return container.Spec{}, err
		}
		spec.Devices = append(spec.Devices, container.Device{
			Path: device.DevicePath, Source: filepath.Join(volume.Plugin.BlockPaths.PodDeviceMapPath(volume.SpecName, pod.UID)),
		})
	}
	return spec, nil
}

// setSecurity fills in what the security contexts of the pod and the container say; the container's takes precedence.
//
// Upstream: pkg/securitycontext DetermineEffectiveSecurityContext, pkg/kubelet/kuberuntime (v1.36).
func setSecurity(spec *container.Spec, pod *corev1.PodSecurityContext, c *corev1.SecurityContext) {
	if pod != nil {
		spec.User, spec.Group = ptr.Deref(pod.RunAsUser, 0), ptr.Deref(pod.RunAsGroup, 0)
		spec.Groups = slices.Clone(pod.SupplementalGroups)
		if pod.FSGroup != nil {
			spec.Groups = append(spec.Groups, *pod.FSGroup)
		}
	}
	if c != nil {
		spec.User, spec.Group = ptr.Deref(c.RunAsUser, spec.User), ptr.Deref(c.RunAsGroup, spec.Group)
		spec.ReadOnly = ptr.Deref(c.ReadOnlyRootFilesystem, false)
		spec.Privileged = ptr.Deref(c.Privileged, false)
	}
}

// mountOf returns what a volumeMount of a container shows.
//
// Upstream: pkg/kubelet makeMounts (v1.36).
func (k *Kubelet) mountOf(pod *corev1.Pod, c *corev1.Container, i int) (container.Mount, error) {
	mount := &c.VolumeMounts[i]
	volume, err := k.mountedVolume(pod, c, mount.Name, false)
	if err != nil {
		return container.Mount{}, err
	}
	part, err := subPathOf(pod, c, mount)
	if err != nil {
		return container.Mount{}, err
	}
	source := volume.Path
	if part != "" {
		source = k.subpath(pod, c, i, volume, part).Target()
	}
	return container.Mount{Path: path.Join("/", mount.MountPath), Source: source, ReadOnly: mount.ReadOnly || volume.ReadOnly}, nil
}

// graceOf returns how long the containers of a pod may take to end; 0 if the pod is not there any more.
//
// Upstream: pkg/kubelet calculateEffectiveGracePeriod (v1.36).
func graceOf(pod *corev1.Pod) time.Duration {
	const most = 1<<63 - 1
	var seconds int64
	switch {
	case pod == nil:
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(min(max(seconds, 0), most/int64(time.Second))) * time.Second
}

// forgetRuns removes the containers of a pod that does not exist any more, with their logs.
func (k *Kubelet) forgetRuns(uid types.UID) {
	if k.cfg.Containers != nil {
		k.cfg.Containers.Remove(uid)
		k.forgetHooks(uid)
		maps.DeleteFunc(k.inputs, func(run container.Run, _ *container.Input) bool { return run.Pod == uid })
	}
}
