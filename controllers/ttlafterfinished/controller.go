package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// controller is the controller of jobs that have finished.
//
// Upstream: pkg/controller/ttlafterfinished Controller (v1.36).
type controller struct {
	process *sim.Process
	client  kubernetes.Interface
	jobs    batchlisters.JobLister
	queue   *sim.Queue[types.NamespacedName]
	later   *sim.Queue[types.NamespacedName] // jobs of cron jobs whose time is not over
}

// New adds the controller to its process. It registers with the informers, and adds two queues with one
// worker each to the process. It must be called before the host starts.
//
// Differs: upstream has five workers. A stepped world lets no time pass for the jobs of a cron job alone:
// if they exist for longer than its period, the world would never be at rest.
func New(cfg Config) {
	jobs := cfg.Informers.Batch().V1().Jobs()
	c := &controller{
		process: cfg.Process, client: cfg.Client, jobs: jobs.Lister(),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "ttl_jobs_to_delete"}),
		later: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "ttl_of_cron_jobs", Heartbeat: true}),
	}
	eventhandler.Add(jobs.Informer(), func(_, job *batchv1.Job) {
		if Concerns(job) {
			c.queue.Add(workload.Key(job))
		}
	}, nil)
	cfg.Process.GateWorkers(jobs.Informer().HasSynced)
	c.queue.Work(c.sync)
	c.later.Work(func(_ context.Context, key types.NamespacedName) error {
		c.queue.Add(key)
		return nil
	})
}

// Concerns reports whether a job has finished and will be deleted. Other jobs do not concern the
// controller.
func Concerns(job *batchv1.Job) bool {
	return job.DeletionTimestamp == nil && job.Spec.TTLSecondsAfterFinished != nil && workload.EndOf(job) != nil
}

// left returns how long a job that has ended will exist.
//
// Upstream: pkg/controller/ttlafterfinished timeLeft, jobFinishTime (v1.36).
func left(job *batchv1.Job, now time.Time) (time.Duration, error) {
	end := workload.EndOf(job).LastTransitionTime
	if end.IsZero() {
		return 0, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
	}
	return end.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now), nil
}

// sync deletes a job whose time is over, and waits for that of another.
//
// Upstream: pkg/controller/ttlafterfinished Controller.processJob (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	job, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
	if err != nil {
		return nil //nolint:nilerr // a lister fails with NotFound only
	}
	if over, err := c.isOver(job); !over {
		return err
	}
	fresh, err := c.client.BatchV1().Jobs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if over, err := c.isOver(fresh); !over {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	return c.client.BatchV1().Jobs(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: metav1.NewUIDPreconditions(string(fresh.UID)),
	})
}

// isOver reports whether the time of a job is over, and queues the job for its end otherwise.
func (c *controller) isOver(job *batchv1.Job) (bool, error) {
	if !Concerns(job) {
		return false, nil
	}
	d, err := left(job, c.process.Now())
	if err != nil {
		return false, err
	}
	if d <= 0 {
		return true, nil
	}
	queue := c.queue
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil && owner.Kind == "CronJob" {
		queue = c.later
	}
	queue.AddAfter(workload.Key(job), d)
	return false, nil
}
