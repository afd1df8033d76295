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

// EventSource is the component that events name.
const EventSource = "garbage-collector-controller"

// MetadataWatcher tells of the objects of all resources. A *fake.Survey is one; one over informers of a real server need only call
// concerns and take in the component's monitor.
type MetadataWatcher interface {
	// Follow begins to call take with the changes that concerns tells to concern the controller, beginning with what there
	// is. was is nil for an object that comes, is for one that goes, both when a kind comes to be served. kind is the
	// preferred version's.
	Follow(concerns func(kind schema.GroupVersionKind, was, is metav1.Object) bool,
		take func(kind schema.GroupVersionKind, was, is metav1.Object))
	// Seen returns an object with a UID as the controller has seen it, or nil, and from then on tells of it.
	Seen(kind schema.GroupVersionKind, namespace, name string, uid types.UID) metav1.Object
	// Mapping tells the resource that serves a kind, whether it is namespaced, and whether there is one.
	Mapping(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced, ok bool)
}

// Config is what New must be told.
type Config struct {
	Process  *sim.Process
	Client   metadata.Interface
	Watcher  MetadataWatcher
	Recorder record.EventRecorder
}

// Controller is the garbage collector. It is moved by its component's host; nothing of it is called from outside.
//
// Differs: one worker for each queue; upstream has 20. What an object's owner is, if the controller has not seen it, is
// asked for once, not again and again until it is seen: the change that brings it into sight is told. An object of a kind
// that nobody serves is taken up again when somebody does.
//
// Upstream: pkg/controller/garbagecollector GarbageCollector, GraphBuilder (v1.36).
type Controller struct {
	client   metadata.Interface
	watcher  MetadataWatcher
	recorder record.EventRecorder

	graph    map[types.UID]*node
	absent   absentOwners
	unserved map[schema.GroupKind][]identity // what waits for a kind to be served
	collect  *sim.Queue[identity]
	orphan   *sim.Queue[identity]
}

// New makes the controller: it begins to follow the source and makes the queues. It must be called before the host starts.
func New(cfg Config) *Controller {
	c := &Controller{
		client: cfg.Client, watcher: cfg.Watcher, recorder: cfg.Recorder,
		graph:    map[types.UID]*node{},
		unserved: map[schema.GroupKind][]identity{},
	}
	cfg.Watcher.Follow(c.matches, c.observeChange)
	c.collect = sim.NewQueue[identity](cfg.Process, sim.QueueConfig{Name: "collect"})
	c.collect.Work(c.deferUnserved(c.attemptToDelete))
	c.orphan = sim.NewQueue[identity](cfg.Process, sim.QueueConfig{Name: "orphan"})
	c.orphan.Work(c.deferUnserved(c.attemptToOrphan))
	return c
}

// unservedError says that nobody serves a kind.
type unservedError struct{ kind schema.GroupVersionKind }

func (e unservedError) Error() string { return "no resource serves " + e.kind.String() }

// errNamespacedOwner says that an object without a namespace refers to an owner that has one, which no retry mends.
var errNamespacedOwner = errors.New("cluster-scoped objects cannot refer to namespaced owners")

// deferUnserved has what cannot be done before a kind is served wait for that, and forgets what cannot be done at all.
func (c *Controller) deferUnserved(sync func(context.Context, identity) error) func(context.Context, identity) error {
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

// matches tells whether a change may alter the graph, or what is to be done: it is about references to owners, about the
// beginning of a deletion, or about the end of something that is in the graph.
func (c *Controller) matches(kind schema.GroupVersionKind, was, is metav1.Object) bool {
	switch {
	case isIgnored(kind):
		return false
	case was == nil && is == nil:
		return len(c.unserved[kind.GroupKind()]) > 0
	case is == nil:
		return c.graph[was.GetUID()] != nil
	case was == nil:
		return c.graph[is.GetUID()] != nil || len(is.GetOwnerReferences()) > 0 ||
			waitsFor(is, metav1.FinalizerOrphanDependents) || waitsFor(is, metav1.FinalizerDeleteDependents)
	case !apiequality.Semantic.DeepEqual(was.GetOwnerReferences(), is.GetOwnerReferences()):
		return true
	case waitsFor(was, metav1.FinalizerOrphanDependents) != waitsFor(is, metav1.FinalizerOrphanDependents),
		waitsFor(was, metav1.FinalizerDeleteDependents) != waitsFor(is, metav1.FinalizerDeleteDependents):
		return true
	default:
		return c.graph[is.GetUID()] != nil && beingDeleted(was) != beingDeleted(is)
	}
}

// isIgnored are the kinds that are not collected.
//
// Upstream: pkg/controller/garbagecollector ignoredResources.
func isIgnored(kind schema.GroupVersionKind) bool {
	return kind.Kind == "Event" && (kind.Group == corev1.GroupName || kind.Group == eventsv1.GroupName)
}

// observeChange takes a change into the graph.
func (c *Controller) observeChange(kind schema.GroupVersionKind, was, is metav1.Object) {
	switch {
	case was == nil && is == nil:
		waiting := c.unserved[kind.GroupKind()]
		delete(c.unserved, kind.GroupKind())
		for _, id := range waiting {
			c.collect.Add(id)
		}
	case is == nil:
		c.objectDeleted(identityOf(kind, was))
	default:
		c.objectChanged(kind, was, is)
	}
}
