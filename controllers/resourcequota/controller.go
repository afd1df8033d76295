package resourcequota

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/quota"
	"github.com/volsim/volsim/sim"
)

// resyncPeriod is the time between full counts.
//
// Upstream: pkg/controller/resourcequota/config/v1alpha1 ResourceQuotaSyncPeriod.
const resyncPeriod = 5 * time.Minute

// metadataWatcher watches the metadata of all resources. It is implemented by *fake.MetadataWatcher
// and *remote.MetadataWatcher. Another implementation must call matches and observe in the
// process's monitor.
type metadataWatcher interface {
	// Follow starts to call observe with the changes that match. old is nil for an addition, obj
	// for a deletion, both are nil when a kind becomes served.
	Follow(matches func(kind schema.GroupVersionKind, old, obj metav1.Object) bool,
		observe func(kind schema.GroupVersionKind, old, obj metav1.Object))
	// Mapping returns the resource that serves a kind, whether it is namespaced, and whether it
	// exists.
	Mapping(kind schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced, ok bool)
}

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	// Metadata lists the objects of the kinds that the controller has no cache of.
	Metadata metadata.Interface
	// Watcher is followed from the first quota on that counts objects of such a kind. nil: such
	// objects are counted again every five minutes only.
	Watcher metadataWatcher
	// Discover returns the namespaced resources that are served, each in its preferred version. A
	// partial result may accompany an error.
	Discover func() ([]*metav1.APIResourceList, error)
}

// controller is the resource quota controller.
//
// Differs: upstream has caches of all resources, and two queues, each with five workers.
//
// Upstream: pkg/controller/resourcequota Controller, QuotaMonitor (v1.36).
type controller struct {
	cfg     Config
	quotas  corelisters.ResourceQuotaLister
	counted []counted
	queue   *sim.Queue[types.NamespacedName] // of quotas
	resync  *sim.Timer
	follows bool // the watcher
}

// counted is a resource that is counted in a cache.
type counted struct {
	resource schema.GroupResource
	objects  cache.Indexer
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
func New(cfg Config) {
	core := cfg.Informers.Core().V1()
	c := &controller{
		cfg: cfg, quotas: core.ResourceQuotas().Lister(),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "resourcequota"}),
	}
	c.resync = cfg.Process.NewBackgroundTimer("resync", c.enqueueAll)
	eventhandler.Add(core.ResourceQuotas().Informer(), c.quotaChanged, nil)
	follow(c, "persistentvolumeclaims", core.PersistentVolumeClaims().Informer(), claimChanged)
	follow(c, "pods", core.Pods().Informer(), c.podChanged)
	follow(c, "services", core.Services().Informer(), serviceChanged)
	follow[corev1.ConfigMap](c, "configmaps", core.ConfigMaps().Informer(), nil)
	follow[corev1.Secret](c, "secrets", core.Secrets().Informer(), nil)
	follow[corev1.ReplicationController](c, "replicationcontrollers", core.ReplicationControllers().Informer(), nil)
	follow[corev1.ResourceQuota](c, "resourcequotas", core.ResourceQuotas().Informer(), nil)
	c.queue.Work(c.sync)
}

// follow counts the objects of a resource in its cache. Quotas are counted again when an object was
// deleted, or changed so that it may use less.
//
// Upstream: pkg/quota/v1/install DefaultUpdateFilter; pkg/controller/resourcequota QuotaMonitor.
func follow[T any, P interface {
	*T
	metav1.Object
}](c *controller, resource string, informer cache.SharedIndexInformer, changed func(old, obj P) bool) {
	of := counted{resource: schema.GroupResource{Resource: resource}, objects: informer.GetIndexer()}
	c.counted = append(c.counted, of)
	eventhandler.Add(informer, func(old, obj P) {
		if old != nil && changed != nil && changed(old, obj) {
			c.replenish(of.resource, obj.GetNamespace())
		}
	}, func(obj P) { c.replenish(of.resource, obj.GetNamespace()) })
	c.cfg.Process.GateWorkers(informer.HasSynced)
}

// claimChanged returns true for each update of a claim: upstream compares addresses of sizes, which
// always differ.
//
// Upstream: pkg/quota/v1/evaluator/core RequiresQuotaReplenish.
func claimChanged(_, _ *corev1.PersistentVolumeClaim) bool { return true }

func (c *controller) podChanged(old, pod *corev1.Pod) bool {
	now := c.cfg.Process.Now()
	return quota.IsTerminating(old) != quota.IsTerminating(pod) ||
		quota.UsesCompute(old, now) && !quota.UsesCompute(pod, now)
}

func serviceChanged(old, service *corev1.Service) bool { return old.Spec.Type != service.Spec.Type }

// Concerns reports whether a change of an object concerns the controller: its namespace has a quota.
// old is nil for a new object, obj for a deleted one.
func Concerns(caches informers.SharedInformerFactory, old, obj metav1.Object) bool {
	if obj == nil {
		obj = old
	}
	quotas, err := caches.Core().V1().ResourceQuotas().Lister().ResourceQuotas(obj.GetNamespace()).List(labels.Everything())
	return err != nil || len(quotas) > 0 // a lister does not fail
}

func keyOf(q *corev1.ResourceQuota) types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// quotaChanged adds a new quota, and one whose spec changed. Its status is written by admission and
// by the controller itself.
func (c *controller) quotaChanged(old, q *corev1.ResourceQuota) {
	if old == nil {
		c.resync.Reset(resyncPeriod)
	} else if quota.Equal(old.Spec.Hard, q.Spec.Hard) {
		return
	}
	if c.cfg.Watcher != nil && !c.follows && len(c.uncached(q.Spec.Hard)) > 0 {
		c.follows = true
		c.cfg.Watcher.Follow(c.matches, func(kind schema.GroupVersionKind, old, obj metav1.Object) {
			if obj == nil {
				if resource, _, ok := c.cfg.Watcher.Mapping(kind); ok {
					c.replenish(resource.GroupResource(), old.GetNamespace())
				}
			}
		})
	}
	c.queue.Add(keyOf(q))
}

// uncached returns the resources whose objects a list counts and that the controller has no cache
// of.
func (c *controller) uncached(list corev1.ResourceList) []schema.GroupResource {
	var out []schema.GroupResource
	for _, resource := range quota.Counted(list) {
		known := false
		for _, of := range c.counted {
			known = known || of.resource == resource
		}
		if !known {
			out = append(out, resource)
		}
	}
	return out
}

// matches reports whether the creation or deletion of an object changes the count of a quota.
func (c *controller) matches(kind schema.GroupVersionKind, old, obj metav1.Object) bool {
	if (old == nil) == (obj == nil) {
		return false
	}
	changed := obj
	if obj == nil {
		changed = old
	}
	for _, q := range c.in(changed.GetNamespace()) {
		for _, of := range c.uncached(q.Spec.Hard) {
			resource, _, ok := c.cfg.Watcher.Mapping(kind)
			if ok && resource.GroupResource() == of {
				return true
			}
		}
	}
	return false
}

// in returns the quotas of a namespace.
func (c *controller) in(namespace string) []*corev1.ResourceQuota {
	quotas, _ := c.quotas.ResourceQuotas(namespace).List(labels.Everything()) // a lister does not fail
	return quotas
}

// replenish adds the quotas of a namespace that limit what objects of a resource use.
//
// Upstream: pkg/controller/resourcequota Controller.replenishQuota.
func (c *controller) replenish(resource schema.GroupResource, namespace string) {
	for _, q := range c.in(namespace) {
		if len(quota.Resources(resource, q.Status.Hard)) > 0 {
			c.queue.Add(keyOf(q))
		}
	}
}

// enqueueAll adds all quotas, and sets the timer for the next time.
func (c *controller) enqueueAll() {
	quotas, _ := c.quotas.List(labels.Everything()) // a lister does not fail
	for _, q := range quotas {
		c.queue.Add(keyOf(q))
	}
	if len(quotas) > 0 {
		c.resync.Reset(resyncPeriod)
	}
}

// sync counts what a quota limits and writes its status if that changes it. What cannot be counted
// keeps its amount.
//
// Upstream: pkg/controller/resourcequota Controller.syncResourceQuota.
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	q, err := c.quotas.ResourceQuotas(key.Namespace).Get(key.Name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	total, err := c.count(ctx, q)
	status := corev1.ResourceQuotaStatus{Hard: quota.Add(nil, q.Spec.Hard), Used: corev1.ResourceList{}}
	for name := range q.Spec.Hard {
		if amount, ok := total[name]; ok {
			status.Used[name] = amount
		} else if amount, ok := q.Status.Used[name]; ok {
			status.Used[name] = amount
		}
	}
	if equality.Semantic.DeepEqual(status.Hard, q.Status.Hard) && q.Status.Hard != nil && q.Status.Used != nil &&
		quota.Equal(status.Used, q.Status.Used) {
		return err
	}
	changed := q.DeepCopy()
	changed.Status = status
	_, writeErr := c.cfg.Client.CoreV1().ResourceQuotas(q.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return errors.Join(err, writeErr)
}

// count returns what the objects of a namespace use of a quota. With an error it lacks what cannot
// be counted.
func (c *controller) count(ctx context.Context, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	total, now := corev1.ResourceList{}, c.cfg.Process.Now()
	var errs []error
	for _, of := range c.counted {
		if len(quota.Resources(of.resource, q.Spec.Hard)) == 0 {
			continue
		}
		stored, err := of.objects.ByIndex(cache.NamespaceIndex, q.Namespace)
		if err != nil {
			return nil, err
		}
		objects := make([]metav1.Object, len(stored))
		for i, obj := range stored {
			objects[i] = obj.(metav1.Object)
		}
		used, err := quota.Total(q, of.resource, objects, now)
		errs = append(errs, err)
		total = quota.Add(total, used)
	}
	for _, of := range c.uncached(q.Spec.Hard) {
		used, err := c.list(ctx, q, of, now)
		errs = append(errs, err)
		total = quota.Add(total, used)
	}
	return total, errors.Join(errs...)
}

// list counts the objects of a resource that the controller has no cache of. A resource that is not
// served is not counted.
func (c *controller) list(ctx context.Context, q *corev1.ResourceQuota, of schema.GroupResource, now time.Time) (corev1.ResourceList, error) {
	served, err := c.cfg.Discover()
	for _, group := range served {
		gv, parseErr := schema.ParseGroupVersion(group.GroupVersion)
		if parseErr != nil || gv.Group != of.Group {
			continue
		}
		for i := range group.APIResources {
			if group.APIResources[i].Name != of.Resource {
				continue
			}
			if of == quota.DeviceClaims && gv.Version == resourcev1.SchemeGroupVersion.Version {
				return c.listDevices(ctx, q, now)
			}
			list, err := c.cfg.Metadata.Resource(gv.WithResource(of.Resource)).Namespace(q.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			objects := make([]metav1.Object, len(list.Items))
			for i := range list.Items {
				objects[i] = &list.Items[i]
			}
			return quota.Total(q, of, objects, now)
		}
	}
	return nil, err
}

// listDevices counts ResourceClaims and their devices.
func (c *controller) listDevices(ctx context.Context, q *corev1.ResourceQuota, now time.Time) (corev1.ResourceList, error) {
	list, err := c.cfg.Client.ResourceV1().ResourceClaims(q.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	claims := make([]*resourcev1.ResourceClaim, len(list.Items))
	for i := range list.Items {
		claims[i] = &list.Items[i]
	}
	return quota.Total(q, quota.DeviceClaims, claims, now)
}
