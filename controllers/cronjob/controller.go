package cronjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/cronschedule"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// EventSource is the component that reports the controller's events.
const EventSource = "cronjob-controller"

var cronKind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// The caches that must have the controller's own writes.
const (
	wroteJob = iota
	wroteCron
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
}

// controller is the CronJob controller.
//
// Upstream: pkg/controller/cronjob ControllerV2 (v1.36).
type controller struct {
	cfg      Config
	client   kubernetes.Interface
	recorder record.EventRecorder
	crons    batchlisters.CronJobLister
	jobs     batchlisters.JobLister
	written  *workload.Written
	queue    *sim.Queue[types.NamespacedName]
	times    *sim.Queue[types.NamespacedName]
}

// New adds the controller to its process. It registers with the informers, and adds two queues with one
// worker each to the process. It must be called before the host starts.
//
// Differs: upstream has five workers, and does not wait until the caches have its own writes.
func New(cfg Config) {
	crons, jobs := cfg.Informers.Batch().V1().CronJobs(), cfg.Informers.Batch().V1().Jobs()
	c := &controller{
		cfg: cfg, client: cfg.Client, recorder: cfg.Recorder, crons: crons.Lister(), jobs: jobs.Lister(),
		written: workload.NewWritten(workload.Cache{Resource: "jobs.batch", Versions: jobs.Informer()},
			workload.Cache{Resource: "cronjobs.batch", Versions: crons.Informer()}),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "cronjob"}),
		times: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "schedule", Heartbeat: true}),
	}
	eventhandler.Add(crons.Informer(), c.cronChanged, func(cron *batchv1.CronJob) { c.written.Forget(workload.Key(cron)) })
	workload.Watch[batchv1.Job](jobs.Informer(), workload.Owners[*batchv1.CronJob]{
		Kind:     cronKind.Kind,
		Get:      func(namespace, name string) (*batchv1.CronJob, error) { return c.crons.CronJobs(namespace).Get(name) },
		List:     func(string) ([]*batchv1.CronJob, error) { return nil, nil }, // it adopts nothing
		Selector: func(*batchv1.CronJob) *metav1.LabelSelector { return nil },
	}, func(cron *batchv1.CronJob) { c.queue.Add(workload.Key(cron)) })
	cfg.Process.GateWorkers(crons.Informer().HasSynced)
	cfg.Process.GateWorkers(jobs.Informer().HasSynced)
	c.queue.Work(c.sync)
	c.times.Work(func(_ context.Context, key types.NamespacedName) error {
		c.queue.Add(key)
		return nil
	})
}

// ConcernsJob reports whether a job is controlled by a CronJob. Changes of other jobs do not concern the
// controller.
func ConcernsJob(job *batchv1.Job) bool {
	ref := metav1.GetControllerOfNoCopy(job)
	return ref != nil && ref.Kind == cronKind.Kind
}

// cronChanged queues a cron job. Another schedule only changes its next time.
func (c *controller) cronChanged(old, cron *batchv1.CronJob) {
	key := workload.Key(cron)
	if old == nil || old.Spec.Schedule == cron.Spec.Schedule && ptr.Equal(old.Spec.TimeZone, cron.Spec.TimeZone) {
		c.queue.Add(key)
		return
	}
	parsed, err := cronschedule.Parse(schedule(cron))
	if err != nil {
		c.warn(cron, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", cron.Spec.Schedule)
		return
	}
	c.times.AddAfter(key, untilNext(cron, c.cfg.Process.Now(), parsed))
}

func (c *controller) warn(cron *batchv1.CronJob, reason, format string, args ...any) {
	c.recorder.Event(cron, corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...))
}

func (c *controller) report(cron *batchv1.CronJob, reason, format string, args ...any) {
	c.recorder.Event(cron, corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...))
}

// A state is what a sync knows of a cron job. The cron job is a copy whose status becomes the one to be
// written.
type state struct {
	cron    *batchv1.CronJob
	jobs    []*batchv1.Job // by name
	now     time.Time
	changed bool // the status must be written
}

// sync deletes old jobs, updates the list of active ones, and creates the next.
//
// Upstream: pkg/controller/cronjob ControllerV2.sync (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	if err := c.written.Seen(key); err != nil {
		return err
	}
	cached, err := c.crons.CronJobs(key.Namespace).Get(key.Name)
	if err != nil {
		return nil //nolint:nilerr // a lister fails with NotFound only
	}
	s := &state{cron: cached.DeepCopy(), jobs: c.jobsOf(cached), now: c.cfg.Process.Now()}
	c.deleteOld(ctx, s)
	wait, syncErr := c.advance(ctx, s)
	if s.changed {
		stored, err := c.client.BatchV1().CronJobs(key.Namespace).UpdateStatus(ctx, s.cron, metav1.UpdateOptions{})
		if err != nil {
			return errors.Join(syncErr, err)
		}
		c.written.Add(cached, wroteCron, stored)
	}
	if wait > 0 {
		c.times.AddAfter(key, wait)
	}
	return syncErr
}

// jobsOf returns the jobs that a cron job controls, by name.
//
// Differs: upstream also takes the jobs of an earlier cron job of the name.
func (c *controller) jobsOf(cron *batchv1.CronJob) []*batchv1.Job {
	all, err := c.jobs.Jobs(cron.Namespace).List(labels.Everything())
	if err != nil {
		return nil // a lister does not fail
	}
	all = slices.DeleteFunc(slices.Clone(all), func(job *batchv1.Job) bool { return !metav1.IsControlledBy(job, cron) })
	slices.SortFunc(all, func(a, b *batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// advance updates the list of active jobs, and creates a job if one is due. It returns after what time
// the next one is; 0: there is none.
//
// Upstream: pkg/controller/cronjob ControllerV2.syncCronJob (v1.36).
func (c *controller) advance(ctx context.Context, s *state) (time.Duration, error) {
	if err := c.updateActive(ctx, s); err != nil {
		return 0, err
	}
	cron := s.cron
	if cron.DeletionTimestamp != nil {
		return 0, nil
	}
	if zone := ptr.Deref(cron.Spec.TimeZone, ""); zone != "" {
		if _, err := time.LoadLocation(zone); err != nil {
			c.warn(cron, "UnknownTimeZone", "invalid timeZone: %q: %s", zone, err)
			return 0, nil
		}
	}
	if ptr.Deref(cron.Spec.Suspend, false) {
		return 0, nil
	}
	if hasZone(cron) {
		c.warn(cron, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see "+
			"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", cron.Spec.Schedule)
	}
	parsed, err := cronschedule.Parse(schedule(cron))
	if err != nil {
		c.warn(cron, "UnparseableSchedule", "unparseable schedule: %q : %s", cron.Spec.Schedule, err)
		return 0, nil
	}
	due, err := latest(cron, s.now, parsed, true)
	if err != nil {
		c.warn(cron, "InvalidSchedule", "invalid schedule: %s : %s", cron.Spec.Schedule, err)
		return 0, nil
	}
	if due.missed == manyMissed && due.found {
		c.warn(cron, "TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if due.found {
		if err := c.start(ctx, s, due.time); err != nil {
			return 0, err
		}
	}
	return untilNext(s.cron, s.now, parsed), nil
}
