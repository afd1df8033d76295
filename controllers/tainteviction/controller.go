package tainteviction

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/podremoval"
	"github.com/volsim/volsim/sim"
)

// EventSource is the source of the controller's events.
//
// Upstream: cmd/kube-controller-manager/names TaintEvictionController (v1.36).
const EventSource = "taint-eviction-controller"

// Reason and message of the condition of an evicted pod.
//
// Upstream: pkg/controller/tainteviction addConditionAndDeletePod (v1.36).
const (
	conditionReason  = "DeletionByTaintManager"
	conditionMessage = "Taint manager: deleting due to NoExecute taint"
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
}

// controller is the taint eviction controller.
//
// Upstream: pkg/controller/tainteviction Controller (v1.36).
type controller struct {
	caches
	process   *sim.Process
	client    kubernetes.Interface
	recorder  record.EventRecorder
	queue     *sim.Queue[string] // keys of pods
	scheduled map[string]eviction
}

// An eviction is scheduled for a pod. One that is being carried out is due.
type eviction struct {
	uid types.UID // of the pod
	at  time.Time
	due bool // its event has been recorded
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
func New(cfg Config) {
	c := &controller{
		caches: cachesOf(cfg.Informers), process: cfg.Process, client: cfg.Client, recorder: cfg.Recorder,
		queue:     sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "tainteviction"}),
		scheduled: map[string]eviction{},
	}
	core := cfg.Informers.Core().V1()
	eventhandler.Add(core.Nodes().Informer(), c.nodeChanged, nil)
	eventhandler.Add(core.Pods().Informer(), c.podChanged, func(pod *corev1.Pod) { c.queue.Add(keyOf(pod)) })
	cfg.Process.GateWorkers(core.Nodes().Informer().HasSynced)
	cfg.Process.GateWorkers(core.Pods().Informer().HasSynced)
	c.queue.Work(c.sync)
}

func (c *controller) nodeChanged(old, node *corev1.Node) {
	if sameTaints(old, node) {
		return
	}
	for _, pod := range c.podsOf(node.Name) {
		c.queue.Add(keyOf(pod))
	}
}

func (c *controller) podChanged(old, pod *corev1.Pod) {
	if !samePlace(old, pod) {
		c.queue.Add(keyOf(pod))
	}
}

// sync decides about a pod, and evicts it or schedules its eviction. A pod that has been replaced by
// another of its name keeps nothing of it.
//
// Differs: an eviction that has been scheduled keeps its time until it is cancelled. Upstream
// schedules it again if that is the same instant, which a wall clock hardly shows.
//
// Upstream: pkg/controller/tainteviction handlePodUpdate, handleNodeUpdate, processPodOnNode (v1.36).
func (c *controller) sync(ctx context.Context, key string) error {
	pod := c.pod(key)
	planned, isPlanned := c.scheduled[key]
	if isPlanned && (pod == nil || pod.UID != planned.uid) {
		c.cancel(key)
		isPlanned = false
	}
	if pod == nil || pod.Spec.NodeName == "" {
		return nil
	}
	node, err := c.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		if isPlanned && c.isDue(planned) {
			return c.evict(ctx, key, pod) // the deletion of the Node cancels nothing
		}
		return nil
	}
	verdict, after := decide(pod.Spec.Tolerations, noExecute(node))
	switch {
	case verdict == keep:
		c.cancel(key)
		return nil
	case verdict == schedule && !isPlanned:
		c.scheduled[key] = eviction{uid: pod.UID, at: c.process.Now().Add(after)}
		c.queue.AddAfter(key, after)
		return nil
	case verdict == schedule && !c.isDue(planned):
		return nil
	case verdict == evict && isPlanned && !c.isDue(planned):
		c.cancel(key) // it is evicted earlier
	}
	return c.evict(ctx, key, pod)
}

func (c *controller) isDue(e eviction) bool { return e.due || !c.process.Now().Before(e.at) }

// cancel cancels the eviction that is scheduled for a pod, if there is one.
func (c *controller) cancel(key string) {
	if e, scheduled := c.scheduled[key]; scheduled {
		delete(c.scheduled, key)
		c.queue.Cancel(key)
		if !e.due {
			c.event(key, "Cancelling deletion of Pod %s")
		}
	}
}

// evict marks a pod and deletes it, if it still exists.
//
// Differs: upstream deletes the pod that has the name, also if it is another one by now. It tries
// five times and then gives up; here the queue retries with back-off.
//
// Upstream: pkg/controller/tainteviction deletePodHandler, addConditionAndDeletePod (v1.36).
func (c *controller) evict(ctx context.Context, key string, pod *corev1.Pod) error {
	if !c.scheduled[key].due {
		c.event(key, "Marking for deletion Pod %s")
	}
	c.scheduled[key] = eviction{uid: pod.UID, due: true}
	live, err := c.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case live.UID == pod.UID:
		err := podremoval.Delete(ctx, c.client, live, podremoval.Options{
			Now: metav1.NewTime(c.process.Now()), Reason: conditionReason, Message: conditionMessage,
		})
		if err != nil {
			return err
		}
	}
	delete(c.scheduled, key)
	return nil
}

// event records an event of a pod. Its message has the key. Like upstream's, it does not have the UID.
func (c *controller) event(key, message string) {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		return // all keys are names
	}
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: name.Namespace, Name: name.Name}
	c.recorder.Eventf(ref, corev1.EventTypeNormal, "TaintManagerEviction", message, key)
}

func keyOf(pod *corev1.Pod) string { return cache.MetaObjectToName(pod).String() }
