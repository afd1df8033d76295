package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder

	// Configuration is the content of a scheduler's configuration file. nil: upstream's defaults.
	Configuration *configv1.KubeSchedulerConfiguration
	// Extenders receive the requests for extenders of a URL prefix inside the process. Those that are not listed
	// receive them by HTTP.
	Extenders map[string]*endpoint.Endpoint
	// StorageCapacityScoring is upstream's feature gate of this name: nodes are ranked by their free storage.
	StorageCapacityScoring bool
}

// Controller is the scheduler. Its state belongs to its process's tasks.
type Controller struct {
	cfg       Config
	pods      corelisters.PodLister
	handle    framework.Handle
	profiles  map[string]*profile // by name
	extenders extender.List

	cache     *framework.Cache
	queue     *queue
	nominated nominations
	nextNode  int // at which the next search for feasible nodes starts

	placed    map[types.UID]*placement // assumed pods, until the cache shows them on their node
	continued []*placement             // to be continued
	workers   []*worker
	deciding  bool // a cycle has begun and not ended
}

// A worker decides about pods and carries out placements, one at a time. While it waits for the API
// server, the next one works.
type worker struct{ busy bool }

// New returns the scheduler. It adds a worker to the process, and registers with the informers. It
// must be called before the host starts. It fails if the configuration is invalid, or requires something
// that this scheduler cannot do.
//
// Upstream: pkg/scheduler New (v1.36).
func New(cfg Config) (*Controller, error) {
	configuration, err := defaults()
	if cfg.Configuration != nil || cfg.StorageCapacityScoring {
		configuration, err = schedulerconfig.New(cfg.Configuration, schedulerconfig.Features{StorageCapacityScoring: cfg.StorageCapacityScoring})
	}
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, pods: cfg.Informers.Core().V1().Pods().Lister(), cache: framework.NewCache(),
		handle:    framework.Handle{Process: cfg.Process, Client: cfg.Client, Informers: cfg.Informers},
		profiles:  map[string]*profile{},
		nominated: newNominations(), placed: map[types.UID]*placement{},
	}
	c.queue = newQueue(cfg.Process, c.profileOf, configuration.PodInitialBackoff, configuration.PodMaxBackoff)
	if c.extenders, err = extender.NewList(cfg.Process, configuration.Extenders, cfg.Extenders); err != nil {
		return nil, err
	}
	for i := range configuration.Profiles {
		p, err := c.newProfile(&configuration.Profiles[i])
		if err != nil {
			return nil, err
		}
		c.profiles[configuration.Profiles[i].SchedulerName] = p
	}
	c.watch(cfg.Informers)
	c.addWorker()
	return c, nil
}

// addWorker adds a worker. It works only while those before it are busy, so it does not matter which of
// several idle ones works.
func (c *Controller) addWorker() {
	w, before, name := &worker{}, slices.Clone(c.workers), "pods"
	if n := len(before); n > 0 {
		name = fmt.Sprintf("pods %d", n+1)
	}
	ready := func() bool {
		return !c.deciding && (len(c.continued) > 0 || !c.queue.isEmpty()) &&
			!slices.ContainsFunc(before, func(w *worker) bool { return !w.busy })
	}
	c.workers = append(c.workers, w)
	c.cfg.Process.Worker(name, ready, func(ctx context.Context) {
		w.busy = true
		defer func() { w.busy = false }()
		if len(before)+1 == len(c.workers) {
			c.addWorker()
		}
		c.work(ctx)
	})
}

// work continues a placement, or decides about the next pod.
//
// Upstream: pkg/scheduler ScheduleOne, scheduleOnePod (v1.36).
func (c *Controller) work(ctx context.Context) {
	if len(c.continued) > 0 {
		p := c.continued[0]
		c.continued = c.continued[1:]
		c.record(p.pod)
		if c.placed[p.pod.UID] == p {
			c.proceed(ctx, p)
		}
		return
	}
	queued := c.queue.pop()
	c.record(queued.pod)
	if c.placed[queued.pod.UID] != nil {
		c.queue.done(queued)
		return
	}
	c.deciding = true
	snapshot := c.cache.Snapshot()
	pod, _ := framework.NewPodInfo(queued.pod) // invalid terms are left out
	cycle, of := framework.NewCycle(pod, snapshot), c.profileOf(queued.pod)
	v := of.decide(ctx, cycle)
	c.cache.Release()
	p := of.conclude(ctx, queued, cycle, v)
	c.deciding = false
	if p != nil {
		c.proceed(ctx, p)
	}
}

// conclude begins the placement that a cycle has decided on. Otherwise it returns nil, and the pod's status says
// why: before the next cycle, which may place the pod.
func (c *profile) conclude(ctx context.Context, queued *queuedPod, cycle *framework.Cycle, v verdict) *placement {
	switch {
	case c.queue.pods[queued.pod.UID] != queued:
		return nil // it was deleted
	case v.node == "":
		c.fail(ctx, queued, v, nil)
		return nil
	}
	p, status := c.place(queued, cycle, v.node)
	switch {
	case status.IsRejected():
		d := &framework.Diagnosis{NodesMax: 1}
		d.Reject(v.node, status)
		c.fail(ctx, queued, verdict{diagnosis: d, clear: true}, nil)
	case status != nil:
		c.fail(ctx, queued, verdict{err: status.Err, clear: true}, nil)
	default:
		c.queue.done(queued)
		return p
	}
	return nil
}

// record records the work on a pod.
func (c *Controller) record(pod *corev1.Pod) {
	c.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: "sync", Object: cache.MetaObjectToName(pod).String()}, trace.Outcome{})
}

// wake continues the placement of a pod.
func (c *Controller) wake(pod *corev1.Pod) {
	p := c.placed[pod.UID]
	if p == nil || p.woken || p.bound {
		return
	}
	p.woken = true
	if !p.running {
		c.continued = append(c.continued, p)
	}
}
