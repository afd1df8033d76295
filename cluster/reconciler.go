package cluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A Reconcile moves the object of a key towards its desired state. It is controller-runtime's
// Reconcile without its types. After an error the key is requeued with back-off; otherwise, if
// requeueAfter is not 0, after that time. A panic is not recovered.
type Reconcile func(ctx context.Context, key types.NamespacedName) (requeueAfter time.Duration, err error)

// A ReconcilerConfig configures a reconciler. Resources are named as in fake.Commit:
// "persistentvolumes", "things.example.com".
type ReconcilerConfig struct {
	Name    string  // of the component
	For     string  // the resource whose objects are the keys; each create, update and delete enqueues one
	Watches []Watch // what else enqueues keys
	Workers int     // number of keys reconciled concurrently; 0: 1

	// Polls says that it always asks to be requeued, to look at what no watch announces. This and
	// its retries do not keep a world from being at rest: after each change it gets one more run.
	Polls bool

	// Reads says where its clients read objects: from the caches of its process, if it is the zero
	// value, as clients of controller-runtime's managers do.
	Reads fake.Reads

	// Install installs the custom resources that it reconciles. See Component.
	Install func(server *fake.Server) error

	// Build returns the reconciler of a new process: at the beginning, after each crash, and for
	// each replica. Its client is p.Client or is built from p.RESTConfig, and reads as Reads says. It
	// may request further caches from p.Informers here. Build makes no API requests.
	Build func(p ComponentContext) (Reconcile, error)
}

// A Watch is a resource whose objects are not keys themselves, but enqueue some.
type Watch struct {
	Resource string
	// Keys returns the keys that an object enqueues. For an update it is called with the old and
	// the new object. The object is read-only. nil: the key is the object's controller, if that is
	// of the reconciler's kind.
	Keys func(obj fake.Object) []types.NamespacedName
}

// Reconciler returns a component that calls a function for the keys of a queue, as
// controller-runtime does. A key that is added again while it waits is one key; a key is never
// reconciled twice at once. The function runs in a task of its own. In a stepped world its requests
// are its only suspension points: it must not start goroutines or wait for anything else.
//
// Deadlines of its contexts use the wall clock: a stepped world ends long before they pass.
//
// Differs: every error is retried, also one that controller-runtime calls terminal; back-off is per
// key only; objects from informers are shared and read-only.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller reconcileHandler, pkg/handler
// EnqueueRequestForObject, EnqueueRequestForOwner, EnqueueRequestsFromMapFunc.
func Reconciler(cfg ReconcilerConfig) Component {
	return Component{Name: cfg.Name, Install: cfg.Install, Start: func(p ComponentContext) error {
		reconcile, err := cfg.Build(p.WithReads(cfg.Reads))
		if err != nil {
			return err
		}
		kind, err := p.lookUpResource(cfg.For)
		if err != nil {
			return err
		}
		queue := sim.NewQueue[types.NamespacedName](p.Process, sim.QueueConfig{Name: cfg.For, Background: cfg.Polls})
		add := func(keys []types.NamespacedName) {
			for _, key := range keys {
				queue.Add(key)
			}
		}
		if err := p.watch(Watch{cfg.For, keyOf}, add); err != nil {
			return err
		}
		for _, w := range cfg.Watches {
			if w.Keys == nil {
				w.Keys = kind.controllerOf
			}
			if err := p.watch(w, add); err != nil {
				return err
			}
		}
		for range max(1, cfg.Workers) {
			queue.Work(reconcile.worker(p.Process, queue))
		}
		return nil
	}}
}

// worker returns the function that processes a key of the queue.
func (reconcile Reconcile) worker(c *sim.Process,
	queue *sim.Queue[types.NamespacedName],
) func(context.Context, types.NamespacedName) error {
	return func(ctx context.Context, key types.NamespacedName) error {
		after, err := reconcile(ctx, key)
		if err != nil {
			c.Record(trace.Action{Kind: trace.KindWork, Verb: "fail", Object: key.String()}, trace.Outcome{Err: err})
			return err
		}
		if after > 0 {
			queue.AddAfter(key, after)
		}
		return nil
	}
}

// Informer returns the process's informer of a resource, named as in fake.Commit. It must be called
// while the component starts. Objects of custom resources are *unstructured.Unstructured.
func (p ComponentContext) Informer(resource string) (cache.SharedIndexInformer, error) {
	k, err := p.lookUpResource(resource)
	if err != nil {
		return nil, err
	}
	informer, err := p.Informers.ForResource(schema.GroupVersionResource{
		Group:   k.Group,
		Version: k.Version, Resource: k.Name,
	})
	if err != nil {
		return nil, err
	}
	return informer.Informer(), nil
}

// lookUpResource returns a resource in its preferred version.
func (p ComponentContext) lookUpResource(resource string) (servedResource, error) {
	r, ok := p.cluster.server.Resource(resource)
	if !ok {
		return servedResource{}, fmt.Errorf("resource %q: not served by the API server", resource)
	}
	return servedResource{r}, nil
}

// A servedResource is a resource as the server serves it.
type servedResource struct{ fake.APIResource }

// watch enqueues the keys of each object that is created, updated or deleted.
func (p ComponentContext) watch(w Watch, add func([]types.NamespacedName)) error {
	informer, err := p.Informer(w.Resource)
	if err != nil {
		return err
	}
	enqueue := func(obj any) {
		if gone, unknown := obj.(cache.DeletedFinalStateUnknown); unknown {
			obj = gone.Obj
		}
		add(w.Keys(obj.(fake.Object)))
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(old, new any) { enqueue(old); enqueue(new) },
		DeleteFunc: enqueue,
	})
	return err
}

func keyOf(obj fake.Object) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

// controllerOf returns the key of an object's controller, if that is of this kind.
func (k servedResource) controllerOf(obj fake.Object) []types.NamespacedName {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || owner.Kind != k.Kind {
		return nil
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != k.Group {
		return nil
	}
	key := types.NamespacedName{Name: owner.Name}
	if k.Namespaced {
		key.Namespace = obj.GetNamespace()
	}
	return []types.NamespacedName{key}
}
