package kubelet

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
)

// What is said of a container for which something cannot be prepared.
//
// Upstream: pkg/kubelet/kuberuntime ErrCreateContainerConfig, pkg/kubelet/events FailedToCreateContainer (v1.36).
const (
	reasonConfigError  = "CreateContainerConfigError"
	reasonFailedCreate = "Failed"
)

// prepareRetryDelay is how long after a failure the containers of a pod are prepared again.
//
// Upstream: pkg/kubelet backOffPeriod (v1.36), without jitter.
const prepareRetryDelay = 10 * time.Second

// preparation is what is done for the containers of a pod between the mounting of its volumes and their start.
type preparation struct {
	stage     stage
	cancelled bool              // it is to end, as the containers are not to start any more
	failures  map[string]string // why the last try failed, by container
	reported  map[string]string // of these, those that the pod was told of
}

type stage int

const (
	unprepared stage = iota
	preparing        // a strand is at it
	prepared
	failed // until it is tried again
)

// watchPreparations has containers prepared again for which that has failed.
func (k *Kubelet) watchPreparations() {
	k.prepareRetries = sim.NewQueue[types.UID](k.cfg.Process, sim.QueueConfig{Name: "containers again", Background: true})
	k.prepareRetries.Work(func(_ context.Context, uid types.UID) error {
		if p := k.preparations[uid]; p != nil && p.stage == failed {
			p.stage = unprepared
			k.pods.Add(uid)
		}
		return nil
	})
}

// prepare tells whether all is prepared for the containers of a pod whose volumes are mounted. If not, it begins: the pod is
// looked at again when that has ended.
func (k *Kubelet) prepare(pod *corev1.Pod) bool {
	if !usesSubPaths(pod) {
		return true
	}
	p := k.preparations[pod.UID]
	if p == nil {
		p = &preparation{}
		k.preparations[pod.UID] = p
	}
	if p.stage == unprepared {
		p.stage = preparing
		k.cfg.Process.Spawn("containers of "+string(pod.UID), func(ctx context.Context) {
			p.failures = k.prepareContainers(ctx, pod, func() bool { return p.cancelled })
			k.prepareEnded(pod.UID, p)
		})
	}
	return p.stage == prepared
}

func (k *Kubelet) prepareEnded(uid types.UID, p *preparation) {
	p.stage = prepared
	if len(p.failures) > 0 {
		p.stage = failed
		k.prepareRetries.AddAfter(uid, prepareRetryDelay)
	}
	k.pods.Add(uid)
}

// prepareContainers prepares what each container needs, and returns why that failed for some, by container. After an init
// container for which it failed it does not go on.
//
// Upstream: pkg/kubelet/kuberuntime SyncPod, startContainer (v1.36).
func (k *Kubelet) prepareContainers(ctx context.Context, pod *corev1.Pod, over func() bool) map[string]string {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := k.bindSubPaths(ctx, pod, c, over); err != nil {
			return map[string]string{c.Name: err.Error()}
		}
	}
	failures := map[string]string{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if err := k.bindSubPaths(ctx, pod, c, over); err != nil {
			failures[c.Name] = err.Error()
		}
	}
	return failures
}

// endPreparation ends what is done for the containers of a pod, which are not to start any more. It returns false as long as
// something is under way; the pod is looked at again then.
func (k *Kubelet) endPreparation(uid types.UID) bool {
	p := k.preparations[uid]
	if p != nil && p.stage == preparing {
		p.cancelled = true
		return false
	}
	delete(k.preparations, uid)
	return true
}

// reportFailures tells a pod why its containers cannot be created.
//
// Differs: that is told when it is something else than before; upstream tells it again at each try.
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
	before := p.reported
	p.reported = p.failures
	for _, name := range slices.Sorted(maps.Keys(p.failures)) {
		if why := p.failures[name]; why != before[name] {
			k.recorder.Event(containerRef(pod, name), corev1.EventTypeWarning, reasonFailedCreate, "Error: "+why)
		}
	}
	return nil
}

// containerRef refers to a container of a pod.
//
// Upstream: pkg/kubelet/container GenerateContainerRef (v1.36).
func containerRef(pod *corev1.Pod, name string) *corev1.ObjectReference {
	field := "spec.containers{" + name + "}"
	if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) {
		field = "spec.initContainers{" + name + "}"
	}
	return &corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: field,
	}
}

// addFailures puts into the statuses of containers that wait why they cannot be created.
func (k *Kubelet) addFailures(pod *corev1.Pod, containers []corev1.ContainerStatus) {
	p := k.preparations[pod.UID]
	if p == nil {
		return
	}
	for i := range containers {
		if why := p.failures[containers[i].Name]; why != "" && containers[i].State.Waiting != nil {
			containers[i].State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonConfigError, Message: why}
		}
	}
}
