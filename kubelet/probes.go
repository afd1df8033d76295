package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// Reasons of events of probes.
//
// Upstream: pkg/kubelet/events ContainerUnhealthy, KillingContainer (v1.36).
const (
	reasonUnhealthy = "Unhealthy"
	reasonKilling   = "Killing"
)

// A probeKind is the use of a probe, as in its messages.
type probeKind string

const (
	startupProbe   probeKind = "Startup"
	livenessProbe  probeKind = "Liveness"
	readinessProbe probeKind = "Readiness"
)

// A probeKey is one probe of a run.
type probeKey struct {
	run  container.Run
	kind probeKind
}

// String returns the key as in the trace.
func (p probeKey) String() string { return fmt.Sprintf("%s of %s", p.kind, p.run.Container) }

// A probe is the result of a probe so far.
type probe struct {
	passed    bool
	same      int // results in a row that differ from passed, or equal it
	last      bool
	executing bool
}

// probeOf returns a probe of a container that executes a command; nil if there is none.
//
// Differs: containers have no network, so probes by HTTP, gRPC and TCP are ignored.
func probeOf(c *corev1.Container, kind probeKind) *corev1.Probe {
	p := c.ReadinessProbe
	switch kind {
	case startupProbe:
		p = c.StartupProbe
	case livenessProbe:
		p = c.LivenessProbe
	case readinessProbe:
	}
	if p == nil || p.Exec == nil {
		return nil
	}
	return p
}

// watchProbes starts the queue of probes. They are background work: they do not keep a world from being quiescent.
func (k *Kubelet) watchProbes() {
	k.probeTimes = sim.NewQueue[probeKey](k.cfg.Process, sim.QueueConfig{Name: "probes", Background: true})
	k.probeTimes.Work(k.probe)
}

// beginProbes begins the probes of a run. A run that an earlier kubelet has started is as ready as its status says.
//
// Upstream: pkg/kubelet/prober newWorker, run (v1.36).
func (k *Kubelet) beginProbes(c *corev1.Container, run container.Run, s *corev1.ContainerStatus) {
	for _, kind := range []probeKind{startupProbe, livenessProbe, readinessProbe} {
		p, key := probeOf(c, kind), probeKey{run, kind}
		if p == nil || k.probes[key] != nil {
			continue
		}
		passed := kind == livenessProbe || kind == readinessProbe && s.Ready || kind == startupProbe && s.Started != nil && *s.Started
		k.probes[key] = &probe{passed: passed}
		k.probeTimes.AddAfter(key, seconds(p.InitialDelaySeconds))
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// passes reports whether a running container passes a probe. was is the answer for a run whose probes have not begun, because an
// earlier kubelet has started it.
func (k *Kubelet) passes(c *corev1.Container, run container.Run, kind probeKind, was bool) bool {
	if k.cfg.Containers == nil || probeOf(c, kind) == nil {
		return true
	}
	if p := k.probes[probeKey{run, kind}]; p != nil {
		return p.passed
	}
	return was
}

// probe executes a probe whose time has come, and schedules the next time.
//
// Upstream: pkg/kubelet/prober doProbe (v1.36).
func (k *Kubelet) probe(_ context.Context, key probeKey) error {
	pod, state := k.known[key.run.Pod], k.probes[key]
	c := containerOf(pod, key.run.Container)
	if c == nil || state == nil || !shouldRun(pod) || k.cfg.Containers.State(key.run).Exited {
		delete(k.probes, key)
		return nil
	}
	p := probeOf(c, key.kind)
	period := seconds(cmp.Or(p.PeriodSeconds, 10))
	started := k.passes(c, key.run, startupProbe, true)
	if state.executing || started == (key.kind == startupProbe) { // one that has passed, or must wait for the startup probe
		if key.kind != startupProbe {
			k.probeTimes.AddAfter(key, period)
		}
		return nil
	}
	state.executing = true
	k.cfg.Process.Spawn("probe "+key.String(), func(context.Context) {
		code, output, err := k.exec(key.run, p.Exec.Command, seconds(cmp.Or(p.TimeoutSeconds, 1)))
		if err != nil {
			code, output = 1, err.Error()
		}
		state.executing = false
		k.probed(pod, c, key, state, code == 0, output)
		k.probeTimes.AddAfter(key, period)
	})
	return nil
}

// probed takes up a result.
//
// Upstream: pkg/kubelet/prober prober.probe, pkg/kubelet/kuberuntime computePodActions (v1.36).
func (k *Kubelet) probed(pod *corev1.Pod, c *corev1.Container, key probeKey, state *probe, success bool, output string) {
	if k.cfg.Containers.State(key.run).Exited || k.probes[key] != state {
		return
	}
	if !success {
		k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeWarning, reasonUnhealthy,
			fmt.Sprintf("%s probe failed: %s", key.kind, output))
	}
	if state.last != success {
		state.same = 0
	}
	state.last = success
	state.same++
	p := probeOf(c, key.kind)
	threshold := cmp.Or(p.FailureThreshold, 3)
	if success {
		threshold = cmp.Or(p.SuccessThreshold, 1)
	}
	if state.same < int(threshold) {
		return
	}
	if state.passed != success {
		state.passed = success
		k.pods.Add(pod.UID)
	}
	if !success && key.kind != readinessProbe {
		name := map[probeKind]string{livenessProbe: "liveness", startupProbe: "startup"}[key.kind]
		k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeNormal, reasonKilling,
			fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, name))
		grace := graceOf(pod)
		if p.TerminationGracePeriodSeconds != nil {
			grace = time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
		}
		k.stopRun(pod, c, key.run, grace)
	}
}

// containerOf returns a container of a pod, which may be nil, by its name.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	if pod == nil {
		return nil
	}
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			if all[i].Name == name {
				return &all[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return ephemeralOf(pod, i)
		}
	}
	return nil
}

// reasonProbeIgnored is the reason of the event for a probe that nothing executes.
const reasonProbeIgnored = "ProbeIgnored"

// reportIgnoredProbes reports the probes of a container that need a network. They count as passed.
func (k *Kubelet) reportIgnoredProbes(pod *corev1.Pod, c *corev1.Container) {
	for _, p := range []struct {
		kind  probeKind
		probe *corev1.Probe
	}{{startupProbe, c.StartupProbe}, {livenessProbe, c.LivenessProbe}, {readinessProbe, c.ReadinessProbe}} {
		if by := networkOf(p.probe); by != "" {
			k.recorder.Event(containerRef(pod, c.Name), corev1.EventTypeNormal, reasonProbeIgnored,
				fmt.Sprintf("%s probe by %s is not executed, since containers have no network: it counts as passed", p.kind, by))
		}
	}
}

// networkOf returns the protocol of a probe; "" if it executes a command, or does not exist.
func networkOf(p *corev1.Probe) string {
	switch {
	case p == nil:
	case p.HTTPGet != nil:
		return "HTTP"
	case p.TCPSocket != nil:
		return "TCP"
	case p.GRPC != nil:
		return "gRPC"
	}
	return ""
}
