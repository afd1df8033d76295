package garbagecollector

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/sim"
)

// EventSource is the reporting component of the controller's events.
const EventSource = "garbage-collector-controller"

// MetadataWatcher watches the metadata of all resources. It is implemented by *fake.MetadataWatcher
// and *remote.MetadataWatcher. Another implementation must call matches and observe in the
// process's monitor.
type MetadataWatcher interface {
	// Follow starts to call observe with the changes that match, beginning with the existing
	// objects. old is nil for an addition, obj for a deletion, both are nil when a kind becomes
	// served. kind has the preferred version.
	Follow(matches func(kind schema.GroupVersionKind, old, obj metav1.Object) bool,
		observe func(kind schema.GroupVersionKind, old, obj metav1.Object))
	// Seen returns the cached object with a UID, or nil, and delivers its changes from then on.
	Seen(kind schema.GroupVersionKind, namespace, name string, uid types.UID) metav1.Object
	// Mapping returns the resource that serves a kind, whether it is namespaced, and whether it
	// exists.
	Mapping(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced, ok bool)
}

// Config configures New.
type Config struct {
	Process  *sim.Process
	Client   metadata.Interface
	Watcher  MetadataWatcher
	Recorder record.EventRecorder
}

// A controller is the garbage collector. Its process's host runs it; it has no exported methods.
//
// Differs: there is one worker for each queue; upstream has 20. An owner that was not observed is
// requested once, and again when it is observed; upstream retries until then. An object of an
// unserved kind is retried when the kind is served.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector, GraphBuilder (v1.36).
type controller struct {
	client   metadata.Interface
	watcher  MetadataWatcher
	recorder record.EventRecorder

	graph    map[types.UID]*node
	absent   absentOwners
	unserved map[schema.GroupKind][]identity // objects that wait for a kind to be served
	collect  *sim.Queue[identity]
	orphan   *sim.Queue[identity]
}

// New creates the controller. It starts to follow the watcher, and adds queues to the process. It
// must be called before the host starts.
func New(cfg Config) {
	c := &controller{
		client: cfg.Client, watcher: cfg.Watcher, recorder: cfg.Recorder,
		graph:    map[types.UID]*node{},
		unserved: map[schema.GroupKind][]identity{},
	}
	cfg.Watcher.Follow(c.matches, c.observeChange)
	c.collect = sim.NewQueue[identity](cfg.Process, sim.QueueConfig{Name: "collect"})
	c.collect.Work(c.deferUnserved(c.attemptToDelete))
	c.orphan = sim.NewQueue[identity](cfg.Process, sim.QueueConfig{Name: "orphan"})
	c.orphan.Work(c.deferUnserved(c.attemptToOrphan))
}

// unservedError means that no resource serves a kind.
type unservedError struct{ kind schema.GroupVersionKind }

func (e unservedError) Error() string { return "no resource serves " + e.kind.String() }

// errNamespacedOwner means that a cluster-scoped object refers to a namespaced owner. Retries do
// not help.
var errNamespacedOwner = errors.New("cluster-scoped objects cannot refer to namespaced owners")

// deferUnserved wraps the sync function of a queue. An object that needs an unserved kind waits
// until the kind is served. An object with an invalid reference is dropped.
func (c *controller) deferUnserved(sync func(context.Context, identity) error) func(context.Context, identity) error {
	return func(ctx context.Context, id identity) error {
		err := sync(ctx, id)
		var unserved unservedError
		switch {
		case errors.As(err, &unserved):
			kind := unserved.kind.GroupKind()
			c.unserved[kind] = append(c.unserved[kind], id)
			return nil
		case errors.Is(err, errNamespacedOwner):
			return nil
		}
		return err
	}
}

// matches reports whether a change may concern the graph: it changes owner references, begins a
// deletion, or deletes an object in the graph.
func (c *controller) matches(kind schema.GroupVersionKind, old, obj metav1.Object) bool {
	switch {
	case isIgnored(kind):
		return false
	case old == nil && obj == nil:
		return len(c.unserved[kind.GroupKind()]) > 0
	case obj == nil:
		return c.graph[old.GetUID()] != nil
	case old == nil:
		return c.graph[obj.GetUID()] != nil || len(obj.GetOwnerReferences()) > 0 ||
			waitsFor(obj, metav1.FinalizerOrphanDependents) || waitsFor(obj, metav1.FinalizerDeleteDependents)
	case !apiequality.Semantic.DeepEqual(old.GetOwnerReferences(), obj.GetOwnerReferences()):
		return true
	case waitsFor(old, metav1.FinalizerOrphanDependents) != waitsFor(obj, metav1.FinalizerOrphanDependents),
		waitsFor(old, metav1.FinalizerDeleteDependents) != waitsFor(obj, metav1.FinalizerDeleteDependents):
		return true
	default:
		return c.graph[obj.GetUID()] != nil && beingDeleted(old) != beingDeleted(obj)
	}
}

// isIgnored reports whether a kind is not collected.
//
// Upstream: pkg/controller/garbagecollector ignoredResources.
func isIgnored(kind schema.GroupVersionKind) bool {
	return kind.Kind == "Event" && (kind.Group == corev1.GroupName || kind.Group == eventsv1.GroupName)
}

// observeChange applies a change to the graph.
func (c *controller) observeChange(kind schema.GroupVersionKind, old, obj metav1.Object) {
	switch {
	case old == nil && obj == nil:
		waiting := c.unserved[kind.GroupKind()]
		delete(c.unserved, kind.GroupKind())
		for _, id := range waiting {
			c.collect.Add(id)
		}
	case obj == nil:
		c.objectDeleted(identityOf(kind, old))
	default:
		c.objectChanged(kind, old, obj)
	}
}
