package job

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// EventSource is the component that reports the controller's events.
const EventSource = "job-controller"

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// The caches that must have the controller's own writes.
const (
	wrotePod = iota
	wroteJob
)

// The back-off of a sync that failed.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
	// ActOnStaleCaches syncs a job also while a cache lacks writes that the controller made for it. It
	// creates and deletes no pod while the cache of pods lacks a creation or a deletion, in any case.
	//
	// Upstream: the feature gate StaleControllerConsistencyJob, which is on since 1.36.
	ActOnStaleCaches bool
}

// controller is the Job controller.
//
// Upstream: pkg/controller/job Controller (v1.36).
type controller struct {
	cfg      Config
	client   kubernetes.Interface
	recorder record.EventRecorder
	jobs     batchlisters.JobLister
	pods     corelisters.PodLister
	podIndex cache.Indexer
	written  *workload.Written
	expected expectations
	known    map[types.NamespacedName]*uncounted // pods of each job
	failures map[types.NamespacedName]backoff
	ended    map[types.UID]struct{} // jobs whose end the cache may lack
	queue    *sim.Queue[types.NamespacedName]
	orphans  *sim.Queue[orphanKey]
}

// New adds the controller to its process. It registers with the informers, and adds two queues with one
// worker each to the process. It must be called before the host starts.
//
// Differs: upstream has five workers for each queue, and delays the sync after a change of a pod or of
// the status by a second, to collect changes.
func New(cfg Config) {
	jobs, pods := cfg.Informers.Batch().V1().Jobs(), cfg.Informers.Core().V1().Pods()
	podCache := workload.Cache{Resource: "pods", Versions: pods.Informer()}
	retry := sim.QueueConfig{Name: "job", BackoffMin: retryMin, BackoffMax: retryMax}
	retryOrphan := retry
	retryOrphan.Name = "job_orphan_pod"
	c := &controller{
		cfg: cfg, client: cfg.Client, recorder: cfg.Recorder, jobs: jobs.Lister(), pods: pods.Lister(),
		podIndex: pods.Informer().GetIndexer(),
		written:  workload.NewWritten(podCache, workload.Cache{Resource: "jobs.batch", Versions: jobs.Informer()}),
		expected: newExpectations(podCache), known: map[types.NamespacedName]*uncounted{},
		failures: map[types.NamespacedName]backoff{}, ended: map[types.UID]struct{}{},
		queue:   sim.NewQueue[types.NamespacedName](cfg.Process, retry),
		orphans: sim.NewQueue[orphanKey](cfg.Process, retryOrphan),
	}
	workload.IndexPods(c.podIndex)
	eventhandler.Add(jobs.Informer(), c.jobChanged, c.jobGone)
	workload.Watch[corev1.Pod](pods.Informer(), owners(c.jobs), c.enqueue)
	eventhandler.Add(pods.Informer(), func(_, pod *corev1.Pod) { c.podChanged(pod) }, c.podGone)
	cfg.Process.GateWorkers(jobs.Informer().HasSynced)
	cfg.Process.GateWorkers(pods.Informer().HasSynced)
	c.queue.Work(c.sync)
	c.orphans.Work(c.syncOrphans)
}

func (c *controller) enqueue(job *batchv1.Job) { c.queue.Add(workload.Key(job)) }

func (c *controller) jobChanged(old, job *batchv1.Job) {
	if old != nil && isFinished(job) {
		c.orphans.Add(selectedBy(job)) // they should have no finalizers any more
	}
	c.enqueue(job)
}

func (c *controller) jobGone(job *batchv1.Job) {
	c.forget(workload.Key(job), job.UID)
	c.orphans.Add(selectedBy(job))
}

// forget removes what is known of a job that has gone or finished.
func (c *controller) forget(key types.NamespacedName, uid types.UID) {
	c.written.Forget(key)
	c.expected.forget(key)
	delete(c.known, key)
	delete(c.failures, key)
	delete(c.ended, uid)
}

// owners returns the jobs of a lister.
func owners(jobs batchlisters.JobLister) workload.Owners[*batchv1.Job] {
	return workload.Owners[*batchv1.Job]{
		Kind:     jobKind.Kind,
		Get:      func(namespace, name string) (*batchv1.Job, error) { return jobs.Jobs(namespace).Get(name) },
		List:     func(namespace string) ([]*batchv1.Job, error) { return jobs.Jobs(namespace).List(labels.Everything()) },
		Selector: func(job *batchv1.Job) *metav1.LabelSelector { return job.Spec.Selector },
	}
}

// ConcernsPod reports whether a pod is controlled by a Job, is an orphan that a job in the informers'
// caches selects, or is an orphan with the finalizer of a job's pod. Changes of other pods do not concern
// the controller.
func ConcernsPod(seen informers.SharedInformerFactory, pod *corev1.Pod) bool {
	return metav1.GetControllerOfNoCopy(pod) == nil && isTracked(pod) ||
		owners(seen.Batch().V1().Jobs().Lister()).Concern(pod)
}

// isTracked reports whether a pod has the finalizer of one that is not counted yet.
func isTracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// isManagedElsewhere reports whether another controller is responsible for a job.
func isManagedElsewhere(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

// sync creates or deletes pods of a job, counts those that have ended, and writes the status.
//
// Upstream: pkg/controller/job Controller.syncJob (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	if !c.cfg.ActOnStaleCaches {
		if err := c.written.Seen(key); err != nil {
			return err
		}
	}
	cached, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
	if err != nil {
		c.forget(key, "")
		return nil //nolint:nilerr // a lister fails with NotFound only
	}
	if isManagedElsewhere(cached) {
		return nil
	}
	if isFinished(cached) {
		c.forget(key, cached.UID)
		return nil
	}
	if _, ended := c.ended[cached.UID]; ended {
		return nil
	}
	mayManage := c.expected.met(c.pods, key)
	known, err := c.begin(ctx, cached)
	if known == nil || err != nil {
		return err
	}
	pods, err := c.members(ctx, cached, known)
	if err != nil {
		return err
	}
	if err := c.verify(ctx, cached, pods, known); err != nil {
		return err
	}
	s := newState(cached, pods, c.expected.removing(key, pods), c.cfg.Process.Now())
	s.observe(c.failures[key])
	s.end()
	if wait := s.deadline(); wait > 0 {
		c.queue.AddAfter(key, wait)
	}
	manageErr := c.act(ctx, s, mayManage)
	if err := c.track(ctx, s); err != nil {
		return err
	}
	return manageErr
}

// act deletes the pods of a job that ends, or manages them. It changes the numbers of pods in s to those
// afterwards.
func (c *controller) act(ctx context.Context, s *state, mayManage bool) error {
	if s.finished != nil {
		all, err := c.deleteActive(ctx, s)
		if !all || !mayManage {
			s.finished = nil // there may be pods that are not in the cache, or that were not deleted
		}
		return err
	}
	var err error
	manages := mayManage && s.job.DeletionTimestamp == nil
	if manages {
		err = c.manage(ctx, s)
	}
	if s.complete() {
		s.finished = newCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached,
			"Reached expected number of succeeded pods", s.now)
	} else if manages {
		c.suspend(s)
	}
	return err
}

// suspend updates the condition that says whether a job is suspended.
func (c *controller) suspend(s *state) {
	if isSuspended(s.job) {
		if s.setCondition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			c.recorder.Event(s.job, corev1.EventTypeNormal, "Suspended", "Job suspended")
			s.job.Status.StartTime, s.changed = nil, true
		}
		return
	}
	if s.setCondition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed") {
		c.recorder.Event(s.job, corev1.EventTypeNormal, "Resumed", "Job resumed")
		s.job.Status.StartTime, s.changed = ptr.To(metav1.NewTime(s.now)), true
	}
}
