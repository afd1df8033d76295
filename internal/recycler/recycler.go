package recycler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
)

// Config configures a Recycler.
type Config struct {
	Process *sim.Process
	Client  kubernetes.Interface
	Pods    coreinformers.PodInformer // of all pods; the process must use it for something else too
	Image   string                    // of the pods; needs a shell, find and ls; "": upstream's
}

// A Recycler runs recycler pods for one process. Use it only in tasks of that process.
type Recycler struct{ cfg Config }

// New returns the recycler of one process. It does not use the informer before the first volume is
// recycled.
func New(cfg Config) *Recycler {
	cfg.Image = cmp.Or(cfg.Image, defaultImage)
	return &Recycler{cfg: cfg}
}

// A Job is a volume to recycle.
type Job struct {
	Volume      string              // name of the PersistentVolume
	Source      corev1.VolumeSource // of the volume
	Deadline    time.Duration       // how long the pod may run, in whole seconds
	RecordEvent func(eventType, message string)
	Acquire     func(holder string) error // see plugins.RecycleOptions; nil: the pod runs at once
}

// Run recycles a volume. It returns when its pod has ended and is deleted. It waits for a pod that
// is never run as long as the pod exists.
//
// Differs: upstream has one pod object for all volumes of a plugin, and writes the volume into it.
// Of two volumes recycled concurrently, one may be emptied twice, and the other given to its next
// claim uncleaned. Here each has a copy. A pod that no longer exists when it is deleted is success;
// upstream recycles the volume again. Only the pod that was created is deleted at the end, not
// another of its name. And the pod is not scheduled until Acquire has returned. Its name makes it
// the only pod that empties the volume, and no older one can have run since.
//
// Upstream: pkg/volume/util/recyclerclient RecycleVolumeByWatchingPodUntilCompletion (v1.36).
func (r *Recycler) Run(ctx context.Context, job Job) error {
	pod := podFor(job, r.cfg.Image)
	created, err := r.cfg.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		if err := r.delete(ctx, pod); err != nil {
			return fmt.Errorf("failed to delete old recycler pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return errors.New("old recycler pod found, will retry later")
	case err != nil:
		return fmt.Errorf("unexpected error creating recycler pod:  %w", err)
	}
	err = r.runPod(ctx, created, job)
	deleteErr := r.delete(ctx, created)
	switch {
	case err != nil:
		return fmt.Errorf("failed to recycle volume: %w", err)
	case deleteErr != nil:
		return fmt.Errorf("failed to delete recycler pod: %w", deleteErr)
	default:
		return nil
	}
}

// runPod runs a pod to its end. It returns an error unless the pod succeeded.
func (r *Recycler) runPod(ctx context.Context, pod *corev1.Pod, job Job) error {
	if job.Acquire != nil {
		if err := job.Acquire(fmt.Sprintf("pod %s/%s (%s)", pod.Namespace, pod.Name, pod.UID)); err != nil {
			return err
		}
		var err error
		if pod, err = r.removeGate(ctx, pod); err != nil {
			return err
		}
	}
	return r.awaitPod(ctx, pod, job.RecordEvent)
}

// removeGate allows a pod to be scheduled.
func (r *Recycler) removeGate(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"schedulingGates":null}}`, pod.UID)
	opened, err := r.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err == nil {
		return opened, nil
	}
	if gone := r.checkExists(ctx, pod); gone != nil { // another of the name makes the patch invalid
		err = gone
	}
	return nil, err
}

// delete deletes a pod, by its UID if known. It succeeds if the pod does not exist.
func (r *Recycler) delete(ctx context.Context, pod *corev1.Pod) error {
	var opts metav1.DeleteOptions
	if pod.UID != "" {
		opts.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	}
	err := r.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, opts)
	if apierrors.IsNotFound(err) || pod.UID != "" && apierrors.IsConflict(err) {
		return nil
	}
	return err
}
