package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// EventSource is the source of the controller's events.
//
// Upstream: pkg/controller/nodelifecycle NewNodeLifecycleController (v1.36).
const EventSource = "node-controller"

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	// GracePeriod is how long a node may be silent. 0 means 50 s.
	GracePeriod time.Duration
	// LeasedOnly leaves nodes alone that never had a Lease, and trusts the times of Leases: they must
	// be those of the process's clock. Then the handlers need not see renewals, as with the filters of
	// Concerns. Without it every node is monitored, and a renewal counts when it is seen.
	LeasedOnly bool
}

// controller is the node lifecycle controller.
//
// Upstream: pkg/controller/nodelifecycle Controller (v1.36).
type controller struct {
	caches
	process    *sim.Process
	client     kubernetes.Interface
	recorder   record.EventRecorder
	leasedOnly bool
	grace      time.Duration // that a node may be silent

	queue     *sim.Queue[string] // names of nodes
	deadlines *sim.Queue[string] // names of nodes
	zoneQueue *sim.Queue[string] // names of zones
	podQueue  *sim.Queue[string] // keys of pods

	nodes map[string]*health // the monitored nodes
	zones map[string]*zone
}

// New adds the controller to its process. It registers with the informers, and adds four queues with
// one worker each. It must be called before the host starts.
func New(cfg Config) {
	queue := func(name string, watchdog bool) *sim.Queue[string] {
		return sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: name, Watchdog: watchdog})
	}
	c := &controller{
		caches: cachesOf(cfg.Informers), process: cfg.Process, client: cfg.Client, recorder: cfg.Recorder,
		leasedOnly: cfg.LeasedOnly, grace: cmp.Or(cfg.GracePeriod, gracePeriod),
		queue: queue("nodelifecycle", false), deadlines: queue("nodelifecycle deadlines", true),
		zoneQueue: queue("nodelifecycle zones", false), podQueue: queue("nodelifecycle pods", false),
		nodes: map[string]*health{}, zones: map[string]*zone{},
	}
	core, leases := cfg.Informers.Core().V1(), cfg.Informers.Coordination().V1().Leases().Informer()
	eventhandler.Add(leases, c.leaseChanged, func(lease *coordinationv1.Lease) { c.leaseGone(lease) })
	eventhandler.Add(core.Nodes().Informer(), func(_, node *corev1.Node) { c.queue.Add(node.Name) },
		func(node *corev1.Node) { c.queue.Add(node.Name) })
	eventhandler.Add(core.Pods().Informer(), func(old, pod *corev1.Pod) {
		if assigned(old, pod) {
			c.podQueue.Add(keyOf(pod))
		}
	}, nil)
	cfg.Process.GateWorkers(leases.HasSynced)
	cfg.Process.GateWorkers(core.Nodes().Informer().HasSynced)
	cfg.Process.GateWorkers(core.Pods().Informer().HasSynced)
	c.queue.Work(c.sync)
	c.deadlines.Work(c.syncDeadline)
	c.zoneQueue.Work(c.syncZone)
	c.podQueue.Work(c.syncPod)
}

// leaseChanged takes in a renewal, or the first Lease of a node.
func (c *controller) leaseChanged(_, lease *coordinationv1.Lease) {
	if lease.Namespace != corev1.NamespaceNodeLease {
		return
	}
	if h := c.nodes[lease.Name]; h != nil {
		h.renew(lease, c.process.Now())
	} else {
		c.queue.Add(lease.Name)
	}
}

// leaseGone looks at the node of a Lease, with which the Lease may have been deleted.
func (c *controller) leaseGone(lease *coordinationv1.Lease) {
	if lease.Namespace == corev1.NamespaceNodeLease {
		c.queue.Add(lease.Name)
	}
}

// sync looks at a node. After a write of its status the cache will show the node again.
//
// Differs: a controller that starts keeps the NoExecute taints of nodes. Upstream's removes them, and
// adds them again at its rate, so that scheduled evictions begin again.
//
// Upstream: pkg/controller/nodelifecycle monitorNodeHealth, doNodeProcessingPassWorker (v1.36).
func (c *controller) sync(ctx context.Context, name string) error {
	node, lease := c.node(name), c.lease(name)
	h := c.nodes[name]
	if h != nil && (node == nil || node.UID != h.uid) {
		c.forget(name, h)
		h = nil
	}
	if node == nil || !c.isMonitored(name) {
		return nil
	}
	if h == nil {
		h = &health{uid: node.UID, clockless: !c.leasedOnly}
		c.nodes[name] = h
		c.event(name, node.UID, "RegisteredNode",
			fmt.Sprintf("Node %s event: Registered Node %s in Controller", name, name))
	}
	h.zone = zoneOf(node)
	c.zone(h.zone)
	now := c.process.Now()
	h.observe(node, now)
	h.renew(lease, now)
	c.deadlines.Cancel(name)
	if wait := h.deadline(c.grace).Sub(now); wait > 0 {
		c.deadlines.AddAfter(name, wait)
	} else if dead := silenced(node, metav1.NewTime(now)); dead != nil {
		return c.silence(ctx, node, dead, h)
	}
	c.judgeZones()
	node, err := c.taint(ctx, node, scheduling, unschedulable(node))
	if err != nil {
		return err
	}
	if err := c.label(ctx, node); err != nil {
		return err
	}
	if err := c.judgeTaints(ctx, node, h); err != nil {
		return err
	}
	return c.markUnmarked(ctx, name, h)
}

// syncDeadline postpones the deadline of a node that has renewed its Lease.
func (c *controller) syncDeadline(_ context.Context, name string) error {
	h, now := c.nodes[name], c.process.Now()
	if h == nil {
		return nil
	}
	h.renew(c.lease(name), now)
	if wait := h.deadline(c.grace).Sub(now); wait > 0 {
		c.deadlines.AddAfter(name, wait)
	} else {
		c.queue.Add(name)
	}
	return nil
}

// isMonitored reports whether a node that exists is monitored.
func (c *controller) isMonitored(name string) bool {
	return !c.leasedOnly || c.nodes[name] != nil || c.lease(name) != nil
}

// silence writes that a node does not report.
func (c *controller) silence(ctx context.Context, node, dead *corev1.Node, h *health) error {
	if _, err := c.client.CoreV1().Nodes().UpdateStatus(ctx, dead, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if h.ready == corev1.ConditionTrue {
		c.event(node.Name, node.UID, "NodeNotReady",
			fmt.Sprintf("Node %s status is now: NodeNotReady", node.Name))
		h.unmarked = true
	}
	return nil
}

// markUnmarked marks the pods of a node that has been declared dead.
func (c *controller) markUnmarked(ctx context.Context, name string, h *health) error {
	if h.unmarked && h.ready != corev1.ConditionTrue {
		if err := c.markPods(ctx, name); err != nil {
			return err
		}
	}
	h.unmarked = false
	return nil
}

// judgeTaints removes the NoExecute taints of a node that is ready. A node that is not ready must wait
// for one, unless it has the opposite one. When no node of any zone is ready any more, all lose theirs.
//
// Differs: upstream removes the taints that nodes had before it looked at them, so one that has just
// replaced the opposite one stays.
//
// Upstream: pkg/controller/nodelifecycle processTaintBaseEviction, markNodeAsReachable (v1.36).
func (c *controller) judgeTaints(ctx context.Context, node *corev1.Node, h *health) error {
	want, evicts := evictionTaint(h.ready)
	has := tainted(node, func(id taintID) bool { return id == want })
	switch {
	case !evicts || h.untaint:
		if !evicts {
			c.needsNoTaint(node.Name)
		} else {
			c.awaitTaint(node.Name, h.zone)
		}
		if _, err := c.taint(ctx, node, evicting, nil); err != nil {
			return err
		}
		h.untaint = false
		return nil
	case has || tainted(node, evicting):
		c.needsNoTaint(node.Name)
		_, err := c.taint(ctx, node, evicting, []taintID{want})
		return err
	default:
		c.awaitTaint(node.Name, h.zone)
		return nil
	}
}

// forget ends the monitoring of a node that does not exist any more.
func (c *controller) forget(name string, h *health) {
	c.event(name, h.uid, "RemovingNode",
		fmt.Sprintf("Node %s event: Removing Node %s from Controller", name, name))
	delete(c.nodes, name)
	c.deadlines.Cancel(name)
	c.needsNoTaint(name)
	c.judgeZones()
}

// event records an event of a node, which may not exist any more.
func (c *controller) event(name string, uid types.UID, reason, message string) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}
	c.recorder.Event(ref, corev1.EventTypeNormal, reason, message)
}
