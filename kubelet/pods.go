package kubelet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/volumemanager"
)

// reasonFailedMount is the reason of the event for a pod whose volumes cannot be mounted.
//
// Upstream: pkg/kubelet/events FailedMountVolume (v1.36).
const reasonFailedMount = "FailedMount"

func (k *Kubelet) podSeen(pod *corev1.Pod) {
	k.known[pod.UID] = pod
	k.pods.Add(pod.UID)
	k.scheduleUsage()
}

func (k *Kubelet) podGone(pod *corev1.Pod) {
	delete(k.known, pod.UID)
	delete(k.rejected, pod.UID)
	delete(k.lifecycles, pod.UID)
	delete(k.reports, pod.UID)
	delete(k.addresses, pod.UID)
	k.pods.Add(pod.UID)
}

// waitFailed handles the failure of a pod's wait for its volumes.
//
// Upstream: pkg/kubelet SyncPod (v1.36).
func (k *Kubelet) waitFailed(uid types.UID, why error) {
	pod := k.known[uid]
	if limit := (*volumemanager.LimitError)(nil); errors.As(why, &limit) {
		k.rejected[uid] = &rejection{reason: reasonLimit, message: limit.Error()}
		k.pods.Add(uid)
	} else if pod != nil && !finished(pod) {
		k.recorder.Event(pod, corev1.EventTypeWarning, reasonFailedMount,
			fmt.Sprintf("Unable to attach or mount volumes: %v", why))
	}
}

// add passes a pod that should run to the volume manager, unless it has been passed already.
func (k *Kubelet) add(pod *corev1.Pod) {
	if k.added[pod.UID] != pod {
		k.added[pod.UID] = pod
		k.volumes.AddPod(pod)
	}
}

// shouldRun reports whether the pod's containers should run, with volumes mounted for them.
func shouldRun(pod *corev1.Pod) bool {
	_, _, scrubs := recycler.PodVolume(pod)
	return pod.DeletionTimestamp == nil && !finished(pod) && !scrubs
}

// syncPod advances a pod by one step. Whatever it waits for requeues it.
//
// Upstream: pkg/kubelet SyncPod, SyncTerminatedPod (v1.36).
func (k *Kubelet) syncPod(ctx context.Context, uid types.UID) error {
	k.begin()
	pod := k.known[uid]
	k.admit(pod)
	if r := k.rejected[uid]; pod != nil && r != nil && !finished(pod) {
		if err := k.reportRejected(ctx, pod, r); err != nil {
			return err
		}
	} else if pod != nil && pod.DeletionTimestamp == nil && !finished(pod) {
		if volume, source, ok := recycler.PodVolume(pod); ok {
			return k.recycle(ctx, pod, volume, source)
		}
		return k.run(ctx, pod)
	}
	return k.stop(ctx, uid, pod)
}

// run starts a pod's containers once its volumes are mounted and its containers prepared.
func (k *Kubelet) run(ctx context.Context, pod *corev1.Pod) error {
	k.add(pod)
	l := k.lifecycleOf(pod)
	switch {
	case l >= running:
		k.scheduleRemount(pod.UID)
		return k.syncContainers(ctx, pod)
	case k.volumes.Mounted(pod.UID):
		k.waits.end(pod.UID)
		k.scheduleRemount(pod.UID)
		if !k.prepare(pod) {
			return k.reportFailures(ctx, pod)
		}
		return k.reportLifecycle(ctx, pod, running)
	case l == creating:
		return nil
	case k.stoppedByBoot(pod), k.waits.expired(pod.UID):
		k.waits.end(pod.UID)
		return k.reportLifecycle(ctx, pod, creating)
	default:
		k.waits.begin(pod.UID)
		return nil
	}
}

// stop cleans up a pod whose containers must not run any more. pod is nil if it has been deleted.
func (k *Kubelet) stop(ctx context.Context, uid types.UID, pod *corev1.Pod) error {
	if !k.endPreparation(uid) {
		return nil
	}
	k.waits.end(uid)
	if !k.stopRuns(uid, pod) {
		return nil
	}
	delete(k.added, uid)
	k.volumes.RemovePod(uid)
	ends := pod != nil && pod.DeletionTimestamp != nil
	if ends && k.lifecycleOf(pod) == running {
		if len(pod.Spec.InitContainers) > 0 && pod.Annotations[ExitCodesAnnotation] != "" && !k.hasLastReport(pod) {
			return nil // the init containers may have done their work; the report will come
		}
		if err := k.reportLifecycle(ctx, pod, ended); err != nil {
			return err
		}
	}
	if k.volumes.HasVolumes(uid) {
		return nil
	}
	switch err := k.removePodDir(ctx, uid); {
	case errors.Is(err, errStillMounted):
		k.orphans.AddAfter(uid, housekeepingPeriod)
		return nil
	case err != nil:
		return err
	}
	if pod == nil {
		k.forgetRuns(uid)
	}
	if !ends {
		return nil
	}
	if k.lifecycleOf(pod) != ended {
		if err := k.reportLifecycle(ctx, pod, ended); err != nil {
			return err
		}
	}
	now := int64(0)
	err := k.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err // on a conflict another pod has the name: the cache will show it
}

func finished(pod *corev1.Pod) bool { return isTerminal(pod.Status.Phase) }

func isTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
