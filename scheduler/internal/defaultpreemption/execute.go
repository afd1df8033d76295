package defaultpreemption

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/podremoval"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A preemption is the deletion of the victims of a pod.
type preemption struct {
	pod     *corev1.Pod
	node    string
	all     []*corev1.Pod // the victims
	victims []*corev1.Pod // that are not deleted yet
	held    bool          // PreEnqueue has held the pod back
}

// begin starts the preemption, unless all victims are being deleted already.
//
// Upstream: pkg/scheduler/framework/preemption Executor.prepareCandidateAsync (v1.36).
//
// Differs: the pod is queued at the end also if it was held back and no victim is left. A victim may have gone
// by itself. Upstream then tries the pod again after five minutes.
func (p *Plugin) begin(pod *corev1.Pod, c candidate) {
	victims := slices.DeleteFunc(slices.Clone(c.victims), func(v *corev1.Pod) bool { return v.DeletionTimestamp != nil })
	if len(victims) == 0 {
		return
	}
	work := &preemption{pod: pod, node: c.node, all: victims, victims: victims}
	p.preempting[pod.UID] = work
	p.Process.Spawn("preemption "+pod.Namespace+"/"+pod.Name, func(ctx context.Context) {
		err := errors.Join(p.clearNominations(ctx, work), p.deleteVictims(ctx, work))
		delete(p.preempting, pod.UID)
		if err != nil || work.held && p.areGone(work.all) {
			p.cfg.Activate(pod)
		}
	})
}

// areGone reports whether the cache has none of the pods any more: no event about them will follow.
func (p *Plugin) areGone(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		cached, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
		return err == nil && cached.UID == pod.UID
	})
}

// clearNominations ends the nominations for the node of pods of lower priority. They may not fit any more.
//
// Upstream: pkg/scheduler/framework/preemption getLowerPriorityNominatedPods, clearNominatedNodeName (v1.36).
func (p *Plugin) clearNominations(ctx context.Context, work *preemption) error {
	var errs []error
	for _, info := range p.cfg.Nominated(work.node) {
		pod := info.Pod
		if !isLower(pod, work.pod) || pod.Status.NominatedNodeName == "" {
			continue
		}
		_, err := p.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":null}}`, pod.UID), metav1.PatchOptions{}, "status")
		if err != nil {
			errs = append(errs, fmt.Errorf("clear the nominated node of pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Plugin) deleteVictims(ctx context.Context, work *preemption) error {
	for len(work.victims) > 0 {
		if err := p.deleteVictim(ctx, work, work.victims[0]); err != nil {
			return err
		}
		work.victims = work.victims[1:]
	}
	return nil
}

// deleteVictim deletes a victim, or ends its binding.
//
// Upstream: pkg/scheduler/framework/preemption Executor.PreemptPod (v1.36).
func (p *Plugin) deleteVictim(ctx context.Context, work *preemption, victim *corev1.Pod) error {
	message := fmt.Sprintf("Preempted by pod %v on node %v", work.pod.UID, work.node)
	if p.cfg.Cancel != nil && p.cfg.Cancel(victim, "preempted by "+Name) {
		message += " (in kube-scheduler memory)."
	} else {
		err := podremoval.DeleteFound(ctx, p.Client, victim, podremoval.Options{
			Now: metav1.NewTime(p.Process.Now()), Reason: corev1.PodReasonPreemptionByScheduler,
			Message: work.pod.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
		})
		if apierrors.IsNotFound(err) {
			return nil // it is gone
		}
		if err != nil {
			return fmt.Errorf("preempt pod %s/%s: %w", victim.Namespace, victim.Name, err)
		}
	}
	p.cfg.Recorder.Event(victim, corev1.EventTypeNormal, "Preempted", message)
	return nil
}

// PreEnqueue keeps a pod out of the queue while its victims are being deleted. The last of them counts as
// deleted as soon as the cache says so: the event that lets the pod be tried again may come before the answer
// of the request.
//
// Upstream: plugins/defaultpreemption DefaultPreemption.PreEnqueue, pkg/scheduler/framework/preemption
// Executor.IsPodRunningPreemption (v1.36).
func (p *Plugin) PreEnqueue(pod *corev1.Pod) *framework.Status {
	work := p.preempting[pod.UID]
	if work == nil || len(work.victims) == 0 {
		return nil
	}
	if len(work.victims) == 1 {
		last := work.victims[0]
		cached, err := p.pods.Pods(last.Namespace).Get(last.Name)
		if err != nil || cached.UID != last.UID || cached.DeletionTimestamp != nil {
			return nil
		}
	}
	work.held = true
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
}
