package namespace

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// backoffMax is how long a namespace whose deletion fails waits at most for the next try.
//
// Upstream: pkg/controller/namespace nsControllerRateLimiter.
const backoffMax = 60 * time.Second

// MetadataWatcher tells of the objects of all resources. A *fake.Survey is one; one over informers of a real server need only call
// concerns and take in the component's monitor.
type MetadataWatcher interface {
	// Follow begins to call take with the changes that concerns tells to concern the controller. was is nil for an object
	// that comes, is for one that goes, both when a kind comes to be served.
	Follow(concerns func(kind schema.GroupVersionKind, was, is metav1.Object) bool,
		take func(kind schema.GroupVersionKind, was, is metav1.Object))
}

// Config is what New must be told.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Informers informers.SharedInformerFactory
	Watcher   MetadataWatcher
	// Discover finds the resources that are served, in the preferred version each. An error may come with what was found
	// all the same.
	Discover func() ([]*metav1.APIResourceList, error)
	// Delay is between the deletion of a namespace and that of its content. A real cluster needs 5 s, for servers that have
	// not heard of the deletion yet and still let something in; 0 is right for one that always knows.
	Delay time.Duration
}

// Controller is the namespace controller. It is moved by its component's host; nothing of it is called from outside.
//
// Differs: upstream looks again after half the time that it thinks the content needs; here what is left is waited for.
// Only where a pod's grace runs out, which nobody announces, time is waited for, too.
//
// Upstream: pkg/controller/namespace NamespaceController (v1.36).
type Controller struct {
	process   *sim.Process
	client    kubernetes.Interface
	metadata  metadata.Interface
	discover  func() ([]*metav1.APIResourceList, error)
	namespace func(name string) *corev1.Namespace // as last seen; nil: none

	queue   *sim.Queue[string]
	waiting map[string]*wait // by namespace, of those that are being emptied
	revisit *sim.Timer
}

// wait is what a namespace that is being emptied waits for.
type wait struct {
	remaining map[types.UID]schema.GroupVersionResource // what was found at the last look
	gone      map[types.UID]struct{}                    // what went, or changed, since that look began
	deleting  bool
	retryAt   time.Time // when to look again in any case; zero: never
}

// New makes the controller: it registers with the informer, begins to follow the source, and makes the queue. It must be
// called before the host starts.
func New(cfg Config) *Controller {
	namespaces := cfg.Informers.Core().V1().Namespaces()
	lister := namespaces.Lister()
	c := &Controller{
		process: cfg.Process, client: cfg.Client, metadata: cfg.Metadata, discover: cfg.Discover,
		namespace: func(name string) *corev1.Namespace {
			ns, _ := lister.Get(name) // a lister fails with NotFound only
			return ns
		},
		waiting: map[string]*wait{},
	}
	eventhandler.Add(namespaces.Informer(), func(_, ns *corev1.Namespace) {
		if ns.DeletionTimestamp != nil && !c.isWaiting(ns) {
			c.queue.AddAfter(ns.Name, cfg.Delay)
		}
	}, func(ns *corev1.Namespace) { delete(c.waiting, ns.Name) })
	cfg.Process.GateWorkers(namespaces.Informer().HasSynced)
	cfg.Watcher.Follow(c.matches, c.observeChange)
	c.queue = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "namespace", BackoffMax: backoffMax})
	c.revisit = cfg.Process.NewTimer("grace", c.graceExpired)
	c.queue.Work(c.sync)
	return c
}

// Matches tells whether a change of a namespace is for the controller.
func Matches(was, is metav1.Object) bool {
	return is == nil && was.GetDeletionTimestamp() != nil || is != nil && is.GetDeletionTimestamp() != nil
}

// isWaiting tells whether the namespace waits for its content already, so that a change of its conditions is no news.
func (c *Controller) isWaiting(ns *corev1.Namespace) bool { return c.waiting[ns.Name] != nil }

// matches tells whether a change may be what a namespace waits for.
func (c *Controller) matches(_ schema.GroupVersionKind, was, is metav1.Object) bool {
	if was == nil {
		return false
	}
	w := c.waiting[was.GetNamespace()]
	if w == nil || was.GetNamespace() == "" {
		return false
	}
	if _, left := w.remaining[was.GetUID()]; !left && !w.deleting {
		return false
	}
	return is == nil || !slices.Equal(was.GetFinalizers(), is.GetFinalizers())
}

func (c *Controller) observeChange(_ schema.GroupVersionKind, was, _ metav1.Object) {
	w := c.waiting[was.GetNamespace()]
	w.gone[was.GetUID()] = struct{}{}
	if !w.deleting {
		c.queue.Add(was.GetNamespace())
	}
}

// graceExpired has namespaces looked at whose pods should be gone.
func (c *Controller) graceExpired() {
	now := c.process.Now()
	for _, name := range slices.Sorted(maps.Keys(c.waiting)) {
		if w := c.waiting[name]; !w.retryAt.IsZero() && !now.Before(w.retryAt) {
			w.retryAt = time.Time{}
			c.queue.Add(name)
		}
	}
	c.setTimer()
}

// setTimer sets the timer for the namespace that is to be looked at first.
func (c *Controller) setTimer() {
	var first time.Time
	for _, w := range c.waiting {
		if !w.retryAt.IsZero() && (first.IsZero() || w.retryAt.Before(first)) {
			first = w.retryAt
		}
	}
	if first.IsZero() {
		c.revisit.Stop()
		return
	}
	c.revisit.ResetAt(first)
}

// sync empties a namespace that is being deleted, and finalizes it when it is empty.
//
// Upstream: pkg/controller/namespace/deletion namespacedResourcesDeleter.Delete.
func (c *Controller) sync(ctx context.Context, name string) error {
	if c.namespace(name) == nil {
		return nil
	}
	ns, err := c.latest(ctx, name)
	if err != nil || ns == nil || ns.DeletionTimestamp == nil {
		return err
	}
	if ns, err = c.terminating(ctx, ns); err != nil || ns == nil || len(ns.Spec.Finalizers) == 0 {
		return err
	}
	w := c.waiting[name]
	if w == nil {
		w = &wait{}
		c.waiting[name] = w
	}
	w.deleting, w.gone = true, map[types.UID]struct{}{}
	found, err := c.deleteContent(ctx, ns, w.remaining)
	w.deleting = false
	w.remaining = found.remaining
	c.updateWait(name, w, found)
	switch {
	case errors.Is(err, errRemaining):
		return nil // waits
	case err != nil:
		w.remaining = nil // everything is looked at
		return err
	case len(found.remaining) > 0:
		return nil
	}
	delete(c.waiting, name)
	return c.finalize(ctx, ns)
}

// updateWait sets what the namespace waits for: what is left, if it did not go while it was looked for; and the end of grace.
func (c *Controller) updateWait(name string, w *wait, found content) {
	w.retryAt = time.Time{}
	if found.grace > 0 {
		w.retryAt = c.process.Now().Add(found.grace)
	}
	for uid := range w.remaining {
		if _, went := w.gone[uid]; went {
			c.queue.Add(name)
		}
	}
	c.setTimer()
}
