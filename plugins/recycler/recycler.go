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

// Config is what New must be told.
type Config struct {
	Process *sim.Process
	Client  kubernetes.Interface
	Pods    coreinformers.PodInformer // of all pods; the component must have it for something else, too
	Image   string                    // of the pods, which must have a shell, find and ls; "": Image
}

// Recycler runs recycler pods for one process. It is to be used in strands of its component only.
type Recycler struct{ cfg Config }

// New makes the recycler of one process. It does not look at the informer before the first volume is recycled.
func New(cfg Config) *Recycler {
	cfg.Image = cmp.Or(cfg.Image, defaultImage)
	return &Recycler{cfg: cfg}
}

// Job is a volume to recycle.
type Job struct {
	Volume      string              // name of the PersistentVolume
	Source      corev1.VolumeSource // where it is
	Deadline    time.Duration       // how long the pod may run, in whole seconds
	RecordEvent func(severity, text string)
	Acquire     func(by string) error // see plugins.RecycleOptions; nil: the pod runs at once
}

// Run recycles a volume, and returns when its pod has ended and is deleted. It waits for a pod that nobody runs as long as
// the pod is there.
//
// Differs: upstream has one pod for all volumes of a plugin, and writes the volume into it: of two volumes that are recycled
// at the same time, one may be emptied twice, and the other given to its next claim as it was. Here each has a copy. A pod
// that is gone when it is to be deleted is success; upstream recycles the volume again. What is deleted at the end is the
// pod that was made, not one of its name. And the pod is kept from being scheduled until Begin has returned: its name makes
// it the only one that empties the volume, and an older one could not have run since.
//
// Upstream: pkg/volume/util/recyclerclient RecycleVolumeByWatchingPodUntilCompletion (v1.36).
func (r *Recycler) Run(ctx context.Context, job Job) error {
	pod := podFor(job, r.cfg.Image)
	made, err := r.cfg.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		if err := r.delete(ctx, pod); err != nil {
			return fmt.Errorf("failed to delete old recycler pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return errors.New("old recycler pod found, will retry later")
	case err != nil:
		return fmt.Errorf("unexpected error creating recycler pod:  %w", err)
	}
	err = r.runPod(ctx, made, job)
	deleteErr := r.delete(ctx, made)
	switch {
	case err != nil:
		return fmt.Errorf("failed to recycle volume: %w", err)
	case deleteErr != nil:
		return fmt.Errorf("failed to delete recycler pod: %w", deleteErr)
	default:
		return nil
	}
}

// runPod lets a pod run to its end, and says how that was.
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

// removeGate lets a pod be scheduled.
func (r *Recycler) removeGate(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"schedulingGates":null}}`, pod.UID)
	opened, err := r.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		return opened, nil
	}
	if gone := r.checkExists(ctx, pod); gone != nil { // another of the name makes the patch invalid
		err = gone
	}
	return nil, err
}

// delete deletes a pod, by its UID if that is known. Gone is success.
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
