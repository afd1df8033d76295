package kubelet

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/sim"
)

// Reasons for a container that cannot be prepared, in its status and in events.
//
// Upstream: pkg/kubelet/kuberuntime ErrCreateContainerConfig, pkg/kubelet/events
// FailedToCreateContainer (v1.36).
const (
	reasonConfigError  = "CreateContainerConfigError"
	reasonFailedCreate = "Failed"
)

// prepareRetryDelay is the delay before the containers of a pod are prepared again after a failure.
//
// Upstream: pkg/kubelet backOffPeriod (v1.36), without jitter.
const prepareRetryDelay = 10 * time.Second

// A preparation is the work for a pod's containers between the mounting of its volumes, and later the end of the containers before
// them or of their last run, and their start. Without a runtime all are prepared once.
type preparation struct {
	stage     stage
	cancelled bool                      // it must end, since the containers must not start any more
	failures  map[string]failure        // of the last try, by container
	reported  map[string]failure        // the failures already reported to the pod
	specs     map[string]container.Spec // what the next run executes of each container that can start; empty without a runtime
	wanted    []*corev1.Container       // what prepareWanted prepares next
}

// A failure is why a container cannot be created, as in its status.
type failure struct{ reason, message string }

type stage int

const (
	idle      stage = iota
	preparing       // a task is at work
	failed          // until the next try
)

// watchPreparations starts the queue of containers whose preparation failed.
func (k *Kubelet) watchPreparations() {
	k.prepareRetries = sim.NewQueue[types.UID](k.cfg.Process,
		sim.QueueConfig{Name: "containers again", Background: true})
	k.prepareRetries.Work(func(_ context.Context, uid types.UID) error {
		k.retryPreparation(uid)
		return nil
	})
}

// prepare reports whether the containers of a pod with mounted volumes that start first are prepared. If not, it
// starts the preparation, which requeues the pod when it ends.
func (k *Kubelet) prepare(pod *corev1.Pod) bool {
	if k.cfg.Containers == nil && !usesSubPaths(pod) && k.preparations[pod.UID] == nil && !hasInvalidImage(pod) {
		return true
	}
	first := pod.Spec.Containers
	switch {
	case k.cfg.Containers == nil: // nothing happens between the start of an init container and that of the next container
		first = slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	case len(pod.Spec.InitContainers) > 0:
		first = pod.Spec.InitContainers[:1]
	}
	prepared := true
	for i := range first {
		c := &first[i]
		prepared = k.isPrepared(pod, c) && prepared
		if p := k.preparations[pod.UID]; p != nil && p.failures[c.Name] != (failure{}) && isInit(pod, c.Name) {
			break
		}
	}
	k.prepareWanted(pod)
	return prepared
}

// isPrepared reports whether the next run of a container can start. If not, prepareWanted prepares it.
func (k *Kubelet) isPrepared(pod *corev1.Pod, c *corev1.Container) bool {
	if !k.volumes.Mounted(pod.UID) {
		return false
	}
	p := k.preparations[pod.UID]
	if p == nil {
		p = &preparation{specs: map[string]container.Spec{}}
		k.preparations[pod.UID] = p
	}
	_, prepared := p.specs[c.Name]
	wanted := slices.ContainsFunc(p.wanted, func(other *corev1.Container) bool { return other.Name == c.Name })
	if !prepared && !wanted && p.stage != preparing && (p.stage != failed || p.failures[c.Name] == (failure{})) {
		p.wanted = append(p.wanted, c)
	}
	return prepared
}

// prepareWanted prepares the containers whose next run should start, and requeues the pod. It stops after an init
// container that cannot be created.
//
// Upstream: pkg/kubelet/kuberuntime SyncPod, startContainer (v1.36).
func (k *Kubelet) prepareWanted(pod *corev1.Pod) {
	p := k.preparations[pod.UID]
	if p == nil || len(p.wanted) == 0 {
		return
	}
	wanted := p.wanted
	p.wanted, p.stage = nil, preparing
	k.cfg.Process.Spawn("containers of "+string(pod.UID), func(ctx context.Context) {
		failures := maps.Clone(p.failures)
		if failures == nil {
			failures = map[string]failure{}
		}
		for _, c := range wanted {
			why := k.prepareContainer(ctx, pod, c, p)
			delete(failures, c.Name)
			if why == (failure{}) {
				continue
			}
			failures[c.Name] = why
			if isInit(pod, c.Name) {
				break
			}
		}
		p.failures = failures
		k.prepareEnded(pod.UID, p)
	})
}

func (k *Kubelet) prepareEnded(uid types.UID, p *preparation) {
	p.stage = idle
	if len(p.failures) > 0 {
		p.stage = failed
		k.prepareRetries.AddAfter(uid, prepareRetryDelay)
	}
	k.pods.Add(uid)
}

// prepareContainer checks the image of a container, binds its subPaths and decides what it executes. It returns why it
// cannot be created, or nothing.
func (k *Kubelet) prepareContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, p *preparation) failure {
	if why := imageFailure(c); why != "" {
		return failure{reasonInvalidImage, why}
	}
	if err := k.bindSubPaths(ctx, pod, c, func() bool { return p.cancelled }); err != nil {
		return failure{reasonConfigError, err.Error()}
	}
	if k.cfg.Containers == nil || p.cancelled {
		p.specs[c.Name] = container.Spec{}
		return failure{}
	}
	spec, err := k.specOf(ctx, pod, c)
	if err != nil {
		return failure{reasonConfigError, err.Error()}
	}
	p.specs[c.Name] = spec
	return failure{}
}

// endPreparation ends the preparation of a pod whose containers must not start any more. It returns
// false while a task is at work; the pod is requeued when that ends.
func (k *Kubelet) endPreparation(uid types.UID) bool {
	for _, p := range [...]*preparation{k.preparations[uid], k.ephemerals[uid]} {
		if p != nil && p.stage == preparing {
			p.cancelled = true
			return false
		}
	}
	delete(k.preparations, uid)
	delete(k.ephemerals, uid)
	return true
}

// reportFailures reports why a pod's containers cannot be created.
//
// Differs: a failure is reported when it changes; upstream reports it at each try.
//
// Upstream: pkg/kubelet/kuberuntime startContainer, recordContainerEvent (v1.36).
func (k *Kubelet) reportFailures(ctx context.Context, pod *corev1.Pod) error {
	p := k.preparations[pod.UID]
	if p.stage != failed || maps.Equal(p.failures, p.reported) {
		return nil
	}
	if err := k.reportLifecycle(ctx, pod, creating); err != nil {
		return err
	}
	k.recordFailures(pod, p)
	return nil
}

// recordFailures reports each failure that was not reported yet.
func (k *Kubelet) recordFailures(pod *corev1.Pod, p *preparation) {
	before := p.reported
	p.reported = p.failures
	for _, name := range slices.Sorted(maps.Keys(p.failures)) {
		why := p.failures[name]
		if why == before[name] {
			continue
		}
		text := why.message
		if why.reason == reasonInvalidImage {
			k.recorder.Event(containerRef(pod, name), corev1.EventTypeWarning, reasonInspectFailed, why.message)
			text = why.reason
		}
		k.recorder.Event(containerRef(pod, name), corev1.EventTypeWarning, reasonFailedCreate, "Error: "+text)
	}
}

// containerRef returns a reference to a container of a pod.
//
// Upstream: pkg/kubelet/container GenerateContainerRef (v1.36).
func containerRef(pod *corev1.Pod, name string) *corev1.ObjectReference {
	field := "spec.containers{" + name + "}"
	switch {
	case isInit(pod, name):
		field = "spec.initContainers{" + name + "}"
	case isEphemeral(pod, name):
		field = "spec.ephemeralContainers{" + name + "}"
	}
	return &corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion,
		FieldPath:       field,
	}
}

// addFailures adds to the statuses of waiting containers why they cannot be created.
func addFailures(p *preparation, containers []corev1.ContainerStatus) {
	if p == nil {
		return
	}
	for i := range containers {
		if why := p.failures[containers[i].Name]; why.reason != "" && containers[i].State.Waiting != nil {
			containers[i].State.Waiting = &corev1.ContainerStateWaiting{Reason: why.reason, Message: why.message}
		}
	}
}
