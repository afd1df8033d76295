package podgc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/podremoval"
	"github.com/volsim/volsim/internal/workload"
	"github.com/volsim/volsim/sim"
)

// quarantine is how long a Node must be missing from the cache before a live read decides.
//
// Upstream: pkg/controller/podgc quarantineTime (v1.36).
const quarantine = 40 * time.Second

// terminatedMax is the default of Config.TerminatedMax.
//
// Upstream: pkg/controller/podgc/config RecommendedDefaultPodGCControllerConfiguration (v1.36).
const terminatedMax = 12500

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	// TerminatedMax is the number of finished pods that are kept. 0 means 12500; with a negative
	// number all are kept.
	TerminatedMax int
}

// controller is the pod garbage collector.
//
// Upstream: pkg/controller/podgc PodGCController (v1.36).
type controller struct {
	caches
	process *sim.Process
	client  kubernetes.Interface
	max     int
	pods    *sim.Queue[string] // keys of pods; terminatedKey
	missing *sim.Queue[string] // names of Nodes in quarantine
	waiting map[string]bool    // the keys of missing
}

// terminatedKey is the key for all finished pods. It is no key of a pod.
const terminatedKey = "finished pods"

// New adds the controller to its process. It registers with the informers, and adds two queues with
// one worker each. It must be called before the host starts.
func New(cfg Config) {
	c := &controller{
		caches: cachesOf(cfg.Informers), process: cfg.Process, client: cfg.Client,
		max:     cmp.Or(cfg.TerminatedMax, terminatedMax),
		pods:    sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "podgc"}),
		missing: sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "podgc nodes"}),
		waiting: map[string]bool{},
	}
	core := cfg.Informers.Core().V1()
	eventhandler.Add(core.Nodes().Informer(), c.nodeChanged, func(node *corev1.Node) { c.addPodsOf(node.Name) })
	eventhandler.Add(core.Pods().Informer(), c.podChanged, c.podGone)
	cfg.Process.GateWorkers(core.Nodes().Informer().HasSynced)
	cfg.Process.GateWorkers(core.Pods().Informer().HasSynced)
	c.pods.Work(c.sync)
	c.missing.Work(c.syncMissing)
}

func (c *controller) podChanged(old, pod *corev1.Pod) {
	if c.concernsPod(pod) {
		c.pods.Add(keyOf(pod))
	}
	if finished(pod) && (old == nil || !finished(old)) && c.crowded(c.max) {
		c.pods.Add(terminatedKey)
	}
}

// podGone ends the quarantine of a Node with the last of its pods.
func (c *controller) podGone(pod *corev1.Pod) {
	if node := pod.Spec.NodeName; c.waiting[node] && len(c.podsOf(node)) == 0 {
		c.release(node)
	}
}

// release ends the quarantine of a Node.
func (c *controller) release(node string) {
	delete(c.waiting, node)
	c.missing.Cancel(node)
}

func (c *controller) nodeChanged(old, node *corev1.Node) {
	c.release(node.Name)
	if isOutOfService(node) && (old == nil || !isOutOfService(old)) {
		c.addPodsOf(node.Name)
	}
}

// addPodsOf adds the pods of a Node, in order of their keys.
func (c *controller) addPodsOf(node string) {
	for _, pod := range c.podsOf(node) {
		if c.concernsPod(pod) {
			c.pods.Add(keyOf(pod))
		}
	}
}

// sync removes a pod, or quarantines its Node, or does nothing.
//
// Upstream: pkg/controller/podgc gcTerminating, gcOrphaned, gcUnscheduledTerminating (v1.36).
func (c *controller) sync(ctx context.Context, key string) error {
	if key == terminatedKey {
		return c.removeTerminated(ctx)
	}
	obj, exists, err := c.podStore.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := obj.(*corev1.Pod)
	switch {
	case c.isOrphan(pod):
		if node := pod.Spec.NodeName; !c.waiting[node] {
			c.waiting[node] = true
			c.missing.AddAfter(node, quarantine)
		}
		return nil
	case c.isLost(pod):
		return c.remove(ctx, pod, "", "")
	default:
		return nil
	}
}

// syncMissing removes the pods of a Node that does not exist. Its end ends the quarantine: a Node
// that exists will be in the cache, whose change is then handled.
//
// Differs: upstream repeats a failed read after another quarantine; here the back-off of the queue
// does.
//
// Upstream: pkg/controller/podgc discoverDeletedNodes, gcOrphaned (v1.36).
func (c *controller) syncMissing(ctx context.Context, name string) error {
	if _, err := c.nodes.Get(name); err == nil || len(c.podsOf(name)) == 0 {
		delete(c.waiting, name)
		return nil
	}
	_, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		delete(c.waiting, name)
		return nil
	case !apierrors.IsNotFound(err):
		return err
	}
	var errs []error
	for _, pod := range c.podsOf(name) {
		errs = append(errs, c.remove(ctx, pod, "DeletionByPodGC", "PodGC: node no longer exists"))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	delete(c.waiting, name)
	return nil
}

// removeTerminated removes the oldest finished pods above the threshold.
//
// Upstream: pkg/controller/podgc gcTerminated (v1.36).
func (c *controller) removeTerminated(ctx context.Context) error {
	pods := workload.ListPods(c.podList, finished)
	surplus := max(len(pods)-c.max, 0)
	slices.SortFunc(pods, compareForRemoval)
	var errs []error
	for _, pod := range pods[:surplus] {
		errs = append(errs, c.remove(ctx, pod, "", ""))
	}
	return errors.Join(errs...)
}

// remove removes a pod at once. One that has not finished has failed, for the given reason; "" is
// none.
//
// Upstream: pkg/controller/podgc markFailedAndDeletePodWithCondition (v1.36).
func (c *controller) remove(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	if finished(pod) {
		reason, message = "", ""
	}
	return podremoval.Delete(ctx, c.client, pod, podremoval.Options{
		Now: metav1.NewTime(c.process.Now()), Force: true, Phase: corev1.PodFailed, Reason: reason, Message: message,
	})
}

// compareForRemoval orders finished pods: evicted ones first, then by age, then by name.
//
// Upstream: pkg/controller/podgc byEvictionAndCreationTimestamp (v1.36), which ignores namespaces.
func compareForRemoval(a, b *corev1.Pod) int {
	late := func(pod *corev1.Pod) int {
		if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == reasonEvicted {
			return 0
		}
		return 1
	}
	return cmp.Or(late(a)-late(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

// reasonEvicted is the reason in the status of a pod that its kubelet evicted.
//
// Upstream: pkg/kubelet/eviction Reason (v1.36).
const reasonEvicted = "Evicted"

func keyOf(pod *corev1.Pod) string { return cache.MetaObjectToName(pod).String() }
