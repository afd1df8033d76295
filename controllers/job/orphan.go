package job

import (
	"context"
	"errors"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// An orphanKey names pods that may have a finalizer although no job will remove it: one pod, or those
// that a job selected.
type orphanKey struct{ namespace, pod, selector string }

// String returns the key as text.
func (k orphanKey) String() string { return k.namespace + "/" + k.pod + k.selector }

// selectedBy returns the key of the pods that a job selects.
func selectedBy(job *batchv1.Job) orphanKey {
	return orphanKey{namespace: job.Namespace, selector: metav1.FormatLabelSelector(job.Spec.Selector)}
}

// podChanged queues a pod with a finalizer that no job will remove.
func (c *controller) podChanged(pod *corev1.Pod) {
	if !isTracked(pod) {
		return
	}
	if metav1.GetControllerOfNoCopy(pod) == nil || pod.DeletionTimestamp != nil && c.isAbandoned(pod) {
		c.orphans.Add(orphanKey{namespace: pod.Namespace, pod: pod.Name})
	}
}

// isAbandoned reports whether the job of a pod has gone or finished. A pod without a controller is
// abandoned; the pod of a controller of another kind is not.
func (c *controller) isAbandoned(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if ref.Kind != jobKind.Kind || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
		return false
	}
	job, exists := owners(c.jobs).Of(pod)
	return !exists || isFinished(job) && !isManagedElsewhere(job)
}

// syncOrphans removes the finalizers of abandoned pods.
//
// Differs: a failure does not keep it from trying the others, and is retried. Upstream retries it for
// single pods only.
//
// Upstream: pkg/controller/job Controller.syncOrphanPod (v1.36).
func (c *controller) syncOrphans(ctx context.Context, key orphanKey) error {
	var errs []error
	for _, pod := range c.orphansOf(key) {
		if !isTracked(pod) || !c.isAbandoned(pod) {
			continue
		}
		_, err := c.client.CoreV1().Pods(pod.Namespace).
			Patch(ctx, pod.Name, types.StrategicMergePatchType, untrackPatch(pod), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// orphansOf returns the pods of a key, by name.
func (c *controller) orphansOf(key orphanKey) []*corev1.Pod {
	if key.pod != "" {
		pod, err := c.pods.Pods(key.namespace).Get(key.pod)
		if err != nil {
			return nil // a lister fails with NotFound only
		}
		return []*corev1.Pod{pod}
	}
	selector, err := labels.Parse(key.selector)
	if err != nil {
		return nil // FormatLabelSelector returned it for an invalid selector
	}
	pods, err := c.pods.Pods(key.namespace).List(selector)
	if err != nil {
		return nil // a lister does not fail
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}
