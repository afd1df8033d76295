package kubelet

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins/recycler"
)

func (k *Kubelet) podSeen(pod *corev1.Pod) {
	k.mine[pod.UID] = pod
	k.pods.Add(pod.UID)
}

func (k *Kubelet) podGone(pod *corev1.Pod) {
	delete(k.mine, pod.UID)
	delete(k.rejected, pod.UID)
	k.pods.Add(pod.UID)
}

// runs tells whether the pod's containers are to run, with volumes mounted for them.
func runs(pod *corev1.Pod) bool {
	_, _, scrubs := recycler.Scrubs(pod)
	return pod.DeletionTimestamp == nil && !finished(pod) && !scrubs
}

// syncPod brings a pod one step on. What has to be waited for brings it back here.
//
// Upstream: pkg/kubelet SyncPod, SyncTerminatedPod (v1.36).
func (k *Kubelet) syncPod(ctx context.Context, uid types.UID) error {
	k.begin()
	pod := k.mine[uid]
	if r := k.rejected[uid]; pod != nil && r != nil && !finished(pod) {
		if err := k.reportRejected(ctx, pod, r); err != nil {
			return err
		}
	} else if pod != nil && pod.DeletionTimestamp == nil && !finished(pod) {
		if volume, source, ok := recycler.Scrubs(pod); ok {
			return k.scrub(ctx, pod, volume, source)
		}
		k.volumes.AddPod(pod)
		if !k.started(pod) && k.volumes.Mounted(uid) {
			return k.reportRunning(ctx, pod)
		}
		return nil
	}
	k.volumes.RemovePod(uid)
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
	if pod == nil || pod.DeletionTimestamp == nil {
		return nil
	}
	now := int64(0)
	err := k.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err // a conflict may be that another pod has the name: then the cache will tell
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
