package job

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/volsim/volsim/internal/workload"
)

// members returns the pods of a job, by name. It adopts orphans that the job selects, with the finalizer,
// and releases pods that it does not select. Those that it adopts are added to the known ones.
//
// Upstream: pkg/controller/job Controller.getPodsForJob (v1.36).
func (c *controller) members(ctx context.Context, job *batchv1.Job, known *uncounted) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("couldn't convert Job selector: %w", err)
	}
	claims := workload.Claims[*corev1.Pod]{
		Owner: job, Kind: jobKind, What: "Pod", Finalizer: batchv1.JobTrackingFinalizer,
		Match: func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) },
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
			return c.patchPod(ctx, job, pod, patch)
		},
	}
	pods, err := claims.Claim(ctx, workload.Pods(c.podIndex, job, true))
	if err != nil {
		return nil, err
	}
	for i, pod := range pods {
		if metav1.IsControlledBy(pod, job) {
			continue
		}
		known.pods[pod.UID] = struct{}{} // it has been adopted
		if !isTracked(pod) {
			pods[i] = pod.DeepCopy()
			pods[i].Finalizers = append(pods[i].Finalizers, batchv1.JobTrackingFinalizer)
		}
	}
	return pods, nil
}

// patchPod does a strategic merge patch of a pod of a job.
func (c *controller) patchPod(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, patch []byte) error {
	return workload.PatchPods(c.client, func(pod *corev1.Pod) { c.written.Add(job, wrotePod, pod) })(ctx, pod, patch)
}

// untrackPatch removes the finalizer of a pod. The UID protects another pod of the name.
func untrackPatch(pod *corev1.Pod) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`,
		pod.UID, batchv1.JobTrackingFinalizer)
}

// untrackSeenPatch is untrackPatch for a pod that must be as it is in the cache.
func untrackSeenPatch(pod *corev1.Pod) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`,
		pod.UID, pod.ResourceVersion, batchv1.JobTrackingFinalizer)
}

// trackPatch adds the finalizer to a pod, which must be as it is in the cache.
func trackPatch(pod *corev1.Pod) []byte {
	return fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"finalizers":[%q]}}`,
		pod.UID, pod.ResourceVersion, batchv1.JobTrackingFinalizer)
}

// expectations are writes that the cache of pods must have before the controller relies on it. They
// matter if the controller acts on stale caches; deletions, which have no version, matter always.
//
// Differs: upstream counts creations and deletions, and gives up after five minutes. Here it is known
// which ones the cache lacks.
//
// Upstream: pkg/controller ControllerExpectations, pkg/controller/job uidTrackingExpectations (v1.36).
type expectations struct {
	created   *workload.Written
	deleted   map[types.NamespacedName]map[types.UID]string   // names of pods, by job and UID
	untracked map[types.NamespacedName]map[types.UID]struct{} // pods whose finalizers were removed, by job
}

func newExpectations(pods workload.Cache) expectations {
	return expectations{
		created: workload.NewWritten(pods),
		deleted: map[types.NamespacedName]map[types.UID]string{}, untracked: map[types.NamespacedName]map[types.UID]struct{}{},
	}
}

func (e *expectations) expectCreated(job *batchv1.Job, pod *corev1.Pod) { e.created.Add(job, 0, pod) }

func (e *expectations) expectDeleted(job *batchv1.Job, pod *corev1.Pod) {
	key := workload.Key(job)
	if e.deleted[key] == nil {
		e.deleted[key] = map[types.UID]string{}
	}
	e.deleted[key][pod.UID] = pod.Name
}

func (e *expectations) expectUntracked(job *batchv1.Job, pod *corev1.Pod) {
	key := workload.Key(job)
	if e.untracked[key] == nil {
		e.untracked[key] = map[types.UID]struct{}{}
	}
	e.untracked[key][pod.UID] = struct{}{}
}

// met reports whether the cache has all creations and deletions for a job.
func (e *expectations) met(pods corelisters.PodLister, job types.NamespacedName) bool {
	met := e.created.Seen(job) == nil
	for uid, name := range e.deleted[job] {
		pod, err := pods.Pods(job.Namespace).Get(name)
		if err == nil && pod.UID == uid && pod.DeletionTimestamp == nil { // a lister fails with NotFound only
			met = false
			continue
		}
		delete(e.deleted[job], uid)
	}
	return met
}

// removing returns the pods among these that have their finalizers in the cache only.
func (e *expectations) removing(job types.NamespacedName, pods []*corev1.Pod) map[types.UID]struct{} {
	known := e.untracked[job]
	for uid := range known {
		if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == uid && isTracked(pod) }) {
			delete(known, uid)
		}
	}
	return known
}

func (e *expectations) forget(job types.NamespacedName) {
	e.created.Forget(job)
	delete(e.deleted, job)
	delete(e.untracked, job)
}
