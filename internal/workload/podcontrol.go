package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
)

// An Owner is an API object that controls pods.
type Owner interface {
	metav1.Object
	runtime.Object
}

// A PodControl creates and deletes the pods of owners, and reports it. The cache of pods must have
// what it did before more is done for the same owner: see [PodControl.Met].
//
// Differs: upstream counts creations, and gives up after five minutes. Here the version of the created
// pod is known, and that of the cache. The notification of a pod causes another sync.
//
// Upstream: pkg/controller RealPodControl, UIDTrackingControllerExpectations (v1.36).
type PodControl struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	pods     corelisters.PodLister
	wrote    func(owner Owner, pod *corev1.Pod)
	created  *Written
	deleted  map[types.NamespacedName]map[types.UID]string // names of pods, by owner and UID
}

// PodControlConfig configures [NewPodControl].
type PodControlConfig struct {
	Client   kubernetes.Interface
	Recorder record.EventRecorder
	Pods     corelisters.PodLister
	Cache    Cache // of pods
	// Wrote is called with each pod that was created.
	Wrote func(owner Owner, pod *corev1.Pod)
}

// NewPodControl returns a PodControl that has done nothing yet.
func NewPodControl(cfg PodControlConfig) *PodControl {
	return &PodControl{
		client: cfg.Client, recorder: cfg.Recorder, pods: cfg.Pods, wrote: cfg.Wrote,
		created: NewWritten(cfg.Cache), deleted: map[types.NamespacedName]map[types.UID]string{},
	}
}

// Create creates a pod of an owner. In a namespace that is being deleted there is nothing to do.
//
// Upstream: pkg/controller RealPodControl.createPods (v1.36).
func (p *PodControl) Create(ctx context.Context, owner Owner, pod *corev1.Pod) error {
	pod, err := p.client.CoreV1().Pods(owner.GetNamespace()).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		p.recorder.Event(owner, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	p.wrote(owner, pod)
	p.created.Add(owner, 0, pod)
	p.recorder.Event(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+pod.Name)
	return nil
}

// Delete deletes a pod of an owner. One that is gone needs nothing.
func (p *PodControl) Delete(ctx context.Context, owner Owner, pod *corev1.Pod) error {
	return DeletePod(ctx, p.client, p.recorder, owner, pod, func() {
		key := Key(owner)
		if p.deleted[key] == nil {
			p.deleted[key] = map[types.UID]string{}
		}
		p.deleted[key][pod.UID] = pod.Name
	})
}

// DeletePod deletes a pod of an owner, and reports it. deleted is called before the event if the pod was
// there.
//
// Differs: the UID is a precondition. Upstream deletes by name.
//
// Upstream: pkg/controller RealPodControl.DeletePod (v1.36).
func DeletePod(ctx context.Context, client kubernetes.Interface, recorder record.EventRecorder,
	owner Owner, pod *corev1.Pod, deleted func(),
) error {
	err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		recorder.Event(owner, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	deleted()
	recorder.Event(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+pod.Name)
	return nil
}

// PatchPods returns the Patch of [Claims] of pods. patched is called with each pod that was patched.
func PatchPods(client kubernetes.Interface, patched func(pod *corev1.Pod)) func(context.Context, *corev1.Pod, []byte) error {
	return func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
		after, err := client.CoreV1().Pods(pod.Namespace).
			Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			patched(after)
		}
		return err
	}
}

// Met reports whether the cache has all creations and deletions for an owner.
func (p *PodControl) Met(owner types.NamespacedName) bool {
	met := p.created.Seen(owner) == nil
	for uid, name := range p.deleted[owner] {
		pod, err := p.pods.Pods(owner.Namespace).Get(name)
		if err == nil && pod.UID == uid && pod.DeletionTimestamp == nil { // a lister fails with NotFound only
			met = false
			continue
		}
		delete(p.deleted[owner], uid)
	}
	return met
}

// Forget removes what is known of an owner.
func (p *PodControl) Forget(owner types.NamespacedName) {
	p.created.Forget(owner)
	delete(p.deleted, owner)
}
