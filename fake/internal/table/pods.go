package table

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
)

// none is the cell of an empty list or name.
const none = "<none>"

// nodeUnreachable is the reason in the status of a pod on an unreachable node.
const nodeUnreachable = "NodeLost"

var podColumns = []metav1.TableColumnDefinition{
	name,
	text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
	text("Status", "The aggregate status of the containers in this pod."),
	text("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
	age,
	wide(text("IP", doc(corev1.PodStatus{}, "podIP"))),
	wide(text("Node", doc(corev1.PodSpec{}, "nodeName"))),
	wide(text("Nominated Node", doc(corev1.PodStatus{}, "nominatedNodeName"))),
	wide(text("Readiness Gates", doc(corev1.PodSpec{}, "readinessGates"))),
}

// podConditions marks completed pods.
func podConditions(obj fake.Object) []metav1.TableRowCondition {
	phase, message := obj.(*corev1.Pod).Status.Phase, ""
	switch phase {
	case corev1.PodSucceeded:
		message = "The pod has completed successfully."
	case corev1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(phase), Message: message,
	}}
}

func podCells(p *corev1.Pod, now clock) []any {
	sum := summarize(p)
	restarts := strconv.Itoa(sum.restarts.count)
	if sum.restarts.count != 0 && !sum.restarts.last.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", sum.restarts.count, now.since(sum.restarts.last))
	}
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, fmt.Sprintf("%d/%d", sum.ready, sum.containers), sum.reason, restarts, now.since(p.CreationTimestamp),
		valueOr(ip, none), valueOr(p.Spec.NodeName, none), valueOr(p.Status.NominatedNodeName, none), readinessGates(p),
	}
}

// readinessGates returns how many of a pod's readiness gates are satisfied.
func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return none
	}
	open := 0
	for _, g := range p.Spec.ReadinessGates {
		if isTrue(p, g.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}

// isTrue reports whether the first condition of a type is True.
func isTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	return i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionTrue
}

// restarts counts restarts.
type restarts struct {
	count int
	last  metav1.Time
}

func (r *restarts) add(c corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

// podSummary is the part of a pod's row that is about containers.
type podSummary struct {
	reason            string
	ready, containers int
	restarts          restarts
}

// summarize combines the statuses of the containers.
//
// Upstream: pkg/printers/internalversion printPod.
func summarize(p *corev1.Pod) podSummary {
	sum := podSummary{reason: valueOr(p.Status.Reason, string(p.Status.Phase)), containers: len(p.Spec.Containers)}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			sum.reason = corev1.PodReasonSchedulingGated
		}
	}
	for i := range p.Spec.InitContainers {
		if sidecar(p.Spec.InitContainers[i]) {
			sum.containers++
		}
	}
	ofSidecars, initializing := sum.initialize(p)
	if !initializing || isTrue(p, corev1.PodInitialized) {
		sum.restarts = ofSidecars
		sum.run(p)
	}
	switch deleted := p.DeletionTimestamp != nil; {
	case deleted && p.Status.Reason == nodeUnreachable:
		sum.reason = "Unknown"
	case deleted && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
		sum.reason = "Terminating"
	}
	return sum
}

// sidecar reports whether an init container is a sidecar, which keeps running.
func sidecar(c corev1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// initialize examines the init containers, up to the first one that is neither done nor a started
// sidecar. It returns the restarts of sidecars, and whether it found one that is not done.
func (sum *podSummary) initialize(p *corev1.Pod) (ofSidecars restarts, found bool) {
	for i, c := range p.Status.InitContainerStatuses {
		isSidecar := slices.ContainsFunc(p.Spec.InitContainers,
			func(s corev1.Container) bool { return s.Name == c.Name && sidecar(s) })
		sum.restarts.add(c)
		if isSidecar {
			ofSidecars.add(c)
		}
		switch ended, waits := c.State.Terminated, c.State.Waiting; {
		case ended != nil && ended.ExitCode == 0:
			continue
		case isSidecar && ptr.Deref(c.Started, false):
			if c.Ready {
				sum.ready++
			}
			continue
		case ended != nil:
			sum.reason = "Init:" + reasonOf(ended)
		case waits != nil && waits.Reason != "" && waits.Reason != "PodInitializing":
			sum.reason = "Init:" + waits.Reason
		default:
			sum.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return ofSidecars, true
	}
	return ofSidecars, false
}

// run examines the containers from last to first. The first reason found wins.
func (sum *podSummary) run(p *corev1.Pod) {
	running, failure := false, ""
	for _, c := range slices.Backward(p.Status.ContainerStatuses) {
		sum.restarts.add(c)
		switch ended, waits := c.State.Terminated, c.State.Waiting; {
		case waits != nil && waits.Reason != "":
			sum.reason = waits.Reason
		case ended != nil:
			sum.reason = reasonOf(ended)
			if ended.ExitCode != 0 {
				failure = sum.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			sum.ready++
		}
	}
	if sum.reason != "Completed" {
		return
	}
	switch {
	case running && hasReady(p):
		sum.reason = "Running"
	case failure != "":
		sum.reason = failure
	case running:
		sum.reason = "NotReady"
	}
}

// hasReady reports whether any Ready condition is True.
func hasReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func reasonOf(ended *corev1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("Signal:%d", ended.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", ended.ExitCode)
	}
}
