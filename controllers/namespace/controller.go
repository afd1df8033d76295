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

// backoffMax is the longest back-off of a namespace whose deletion fails.
//
// Upstream: pkg/controller/namespace nsControllerRateLimiter.
const backoffMax = 60 * time.Second

// metadataWatcher watches the metadata of all resources. It is implemented by *fake.MetadataWatcher
// and *remote.MetadataWatcher. Another implementation must call matches and observe in the
// process's monitor.
type metadataWatcher interface {
	// Follow starts to call observe with the changes that match. old is nil for an addition, obj
	// for a deletion, both are nil when a kind becomes served.
	Follow(matches func(kind schema.GroupVersionKind, old, obj metav1.Object) bool,
		observe func(kind schema.GroupVersionKind, old, obj metav1.Object))
}

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Informers informers.SharedInformerFactory
	Watcher   metadataWatcher
	// Discover returns the served resources, each in its preferred version. A partial result may
	// accompany an error.
	Discover func() ([]*metav1.APIResourceList, error)
	// Delay is the time between the deletion of a namespace and that of its content. A real cluster
	// needs 5 s: API servers that have not seen the deletion yet may still admit objects. 0 suits a
	// server that is always consistent.
	Delay time.Duration
}

// A controller is the namespace controller. Its process's host runs it; it has no exported methods.
//
// Differs: upstream retries after half of the estimated time. Here the controller waits for changes
// of the remaining content, and for the end of pods' grace periods, which no event announces.
//
// Upstream: pkg/controller/namespace NamespaceController (v1.36).
type controller struct {
	process   *sim.Process
	client    kubernetes.Interface
	metadata  metadata.Interface
	discover  func() ([]*metav1.APIResourceList, error)
	namespace func(name string) *corev1.Namespace // from the cache; nil: none

	queue   *sim.Queue[string]
	waiting map[string]*wait // namespaces that are being deleted, by name
	revisit *sim.Timer
}

// wait is what the deletion of a namespace waits for.
type wait struct {
	remaining map[types.UID]schema.GroupVersionResource // found by the last attempt
	gone      map[types.UID]struct{}                    // deleted or changed since that attempt began
	deleting  bool
	retryAt   time.Time // time of the next attempt; zero: none
}

// New creates the controller. It registers with the informer and the watcher, and adds its queue to
// the process. It must be called before the host starts.
func New(cfg Config) {
	namespaces := cfg.Informers.Core().V1().Namespaces()
	lister := namespaces.Lister()
	c := &controller{
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
}

// Matches reports whether a change of a namespace concerns the controller.
func Matches(old, obj metav1.Object) bool {
	return obj == nil && old.GetDeletionTimestamp() != nil || obj != nil && obj.GetDeletionTimestamp() != nil
}

// isWaiting reports whether the namespace already waits for its content. Then a change of its
// conditions is irrelevant.
func (c *controller) isWaiting(ns *corev1.Namespace) bool { return c.waiting[ns.Name] != nil }

// matches reports whether a namespace may be waiting for a change.
func (c *controller) matches(_ schema.GroupVersionKind, old, obj metav1.Object) bool {
	if old == nil {
		return false
	}
	w := c.waiting[old.GetNamespace()]
	if w == nil || old.GetNamespace() == "" {
		return false
	}
	if _, remaining := w.remaining[old.GetUID()]; !remaining && !w.deleting {
		return false
	}
	return obj == nil || !slices.Equal(old.GetFinalizers(), obj.GetFinalizers())
}

func (c *controller) observeChange(_ schema.GroupVersionKind, old, _ metav1.Object) {
	w := c.waiting[old.GetNamespace()]
	w.gone[old.GetUID()] = struct{}{}
	if !w.deleting {
		c.queue.Add(old.GetNamespace())
	}
}

// graceExpired queues the namespaces whose pods should be gone.
func (c *controller) graceExpired() {
	now := c.process.Now()
	for _, name := range slices.Sorted(maps.Keys(c.waiting)) {
		if w := c.waiting[name]; !w.retryAt.IsZero() && !now.Before(w.retryAt) {
			w.retryAt = time.Time{}
			c.queue.Add(name)
		}
	}
	c.setTimer()
}

// setTimer sets the timer for the earliest attempt.
func (c *controller) setTimer() {
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

// sync deletes the content of a namespace that is being deleted, and finalizes the namespace when
// it is empty.
//
// Upstream: pkg/controller/namespace/deletion namespacedResourcesDeleter.Delete.
func (c *controller) sync(ctx context.Context, name string) error {
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
		w.remaining = nil // the next attempt covers all resources
		return err
	case len(found.remaining) > 0:
		return nil
	}
	delete(c.waiting, name)
	return c.finalize(ctx, ns)
}

// updateWait sets the time of the next attempt. If remaining content was deleted during the
// attempt, it queues the namespace at once.
func (c *controller) updateWait(name string, w *wait, found content) {
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
