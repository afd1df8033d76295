package deployment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

const (
	timedOut  = "ProgressDeadlineExceeded"
	completed = "NewReplicaSetAvailable"
)

// hasDeadline reports whether lack of progress is reported.
//
// Upstream: pkg/controller/deployment/util HasProgressDeadline (v1.36).
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// notePause reports in a condition that the Deployment is paused, or no longer: the time of a pause
// does not count against the deadline.
//
// Upstream: pkg/controller/deployment DeploymentController.checkPausedConditions (v1.36).
func (r *rollout) notePause(ctx context.Context) error {
	const paused = "DeploymentPaused"
	if !hasDeadline(r.d) {
		return nil
	}
	reason := ""
	if c := conditionOf(&r.d.Status, appsv1.DeploymentProgressing); c != nil {
		reason = c.Reason
	}
	switch {
	case reason == timedOut || r.d.Spec.Paused == (reason == paused):
		return nil
	case r.d.Spec.Paused:
		r.setCondition(&r.d.Status, appsv1.DeploymentProgressing, corev1.ConditionUnknown, paused, "Deployment is paused")
	default:
		r.setCondition(&r.d.Status, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
	return r.updateStatus(ctx)
}

// rolloutStatus returns the status with the conditions of a rollout: whether it progresses, and whether
// a set cannot create pods.
//
// Upstream: pkg/controller/deployment DeploymentController.syncRolloutStatus (v1.36).
func (r *rollout) rolloutStatus() *appsv1.DeploymentStatus {
	const kind = appsv1.DeploymentProgressing
	status := r.newStatus()
	before := conditionOf(&r.d.Status, kind)
	subject := fmt.Sprintf("Deployment %q", r.d.Name)
	if r.newest != nil {
		subject = fmt.Sprintf("ReplicaSet %q", r.newest.Name)
	}
	switch {
	case !hasDeadline(r.d):
		removeCondition(status, kind)
	case status.Replicas == status.UpdatedReplicas && before != nil && before.Reason == completed:
		// The rollout has ended before.
	case isComplete(r.d, status):
		r.setCondition(status, kind, corev1.ConditionTrue, completed, subject+" has successfully progressed.")
	case hasProgressed(&r.d.Status, status):
		progress := appsv1.DeploymentCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated", Message: subject + " is progressing.",
			LastUpdateTime: r.now, LastTransitionTime: r.now,
		}
		if before != nil && before.Status == corev1.ConditionTrue {
			progress.LastTransitionTime = before.LastTransitionTime
		}
		removeCondition(status, kind) // its time changes also if its reason does not
		addCondition(status, progress)
	case hasTimedOut(r.d, conditionOf(status, kind), r.now.Time):
		r.setCondition(status, kind, corev1.ConditionFalse, timedOut, subject+" has timed out progressing.")
	}
	if failure, ok := r.replicaFailure(); ok {
		addCondition(status, failure)
	} else {
		removeCondition(status, appsv1.DeploymentReplicaFailure)
	}
	return status
}

// hasProgressed reports whether more pods are updated, ready or available, or fewer are old.
//
// Upstream: pkg/controller/deployment/util DeploymentProgressing (v1.36).
func hasProgressed(before, status *appsv1.DeploymentStatus) bool {
	return status.UpdatedReplicas > before.UpdatedReplicas ||
		status.Replicas-status.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		status.ReadyReplicas > before.ReadyReplicas || status.AvailableReplicas > before.AvailableReplicas
}

// hasTimedOut reports whether the condition Progressing is older than the deadline.
//
// Upstream: pkg/controller/deployment/util DeploymentTimedOut (v1.36).
func hasTimedOut(d *appsv1.Deployment, progressing *appsv1.DeploymentCondition, now time.Time) bool {
	if !hasDeadline(d) || progressing == nil || progressing.Reason == completed {
		return false
	}
	return progressing.Reason == timedOut || deadline(d, progressing).Before(now)
}

// deadline returns when a rollout has taken too long.
func deadline(d *appsv1.Deployment, progressing *appsv1.DeploymentCondition) time.Time {
	return progressing.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// replicaFailure returns the failure of a set to create or delete pods; that of the new set first.
//
// Upstream: pkg/controller/deployment DeploymentController.getReplicaFailures (v1.36).
func (r *rollout) replicaFailure() (failure appsv1.DeploymentCondition, ok bool) {
	sets := r.all()
	if r.newest != nil {
		sets = slices.Insert(sets, 0, r.newest)
	}
	for _, set := range sets {
		for _, c := range set.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return appsv1.DeploymentCondition{
					Type: appsv1.DeploymentConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime,
				}, true
			}
		}
	}
	return appsv1.DeploymentCondition{}, false
}

// writeRolloutStatus writes the status of a rollout, and wakes the Deployment when that has taken too
// long.
//
// Differs: if only pods of a complete rollout are not available, nothing can time out. Upstream retries
// then with its back-off.
//
// Upstream: pkg/controller/deployment DeploymentController.requeueStuckDeployment (v1.36).
func (r *rollout) writeRolloutStatus(ctx context.Context) error {
	if err := r.writeStatus(ctx, r.rolloutStatus()); err != nil {
		return err
	}
	progressing := conditionOf(&r.d.Status, appsv1.DeploymentProgressing)
	if hasDeadline(r.d) && progressing != nil && progressing.Reason != timedOut && progressing.Reason != completed &&
		!isComplete(r.d, &r.d.Status) {
		r.deadlines.set(workload.Key(r.d), deadline(r.d, progressing).Add(time.Second))
		return nil
	}
	r.deadlines.remove(workload.Key(r.d))
	return nil
}

// deadlines are the times at which Deployments must be synced.
//
// Differs: upstream has a time for each sync that changed nothing. Here a Deployment has one, which is
// removed when its rollout is complete, so that nothing is pending then.
type deadlines struct {
	at    map[types.NamespacedName]time.Time
	timer *sim.Timer
}

func newDeadlines(process *sim.Process, enqueue func(types.NamespacedName)) *deadlines {
	d := &deadlines{at: map[types.NamespacedName]time.Time{}}
	d.timer = process.NewTimer("deployment progress", func() {
		var due []types.NamespacedName
		for key, at := range d.at {
			if !at.After(process.Now()) {
				due = append(due, key)
				delete(d.at, key)
			}
		}
		slices.SortFunc(due, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range due {
			enqueue(key)
		}
		d.arm()
	})
	return d
}

func (d *deadlines) set(key types.NamespacedName, at time.Time) {
	if d.at[key].Equal(at) {
		return
	}
	d.at[key] = at
	d.arm()
}

func (d *deadlines) remove(key types.NamespacedName) {
	if _, known := d.at[key]; known {
		delete(d.at, key)
		d.arm()
	}
}

// arm sets the timer to the earliest time.
func (d *deadlines) arm() {
	var first time.Time
	for _, at := range d.at {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() {
		d.timer.Stop()
		return
	}
	d.timer.ResetAt(first)
}
