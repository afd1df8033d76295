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

// Reconcile brings what a key names to where it should be. It is controller-runtime's Reconcile without its types: after an
// error the key comes back with back-off, else, if requeueAfter is not 0, when that much time has passed. A panic goes
// through.
type Reconcile func(ctx context.Context, key types.NamespacedName) (requeueAfter time.Duration, err error)

// ReconcilerConfig says what a reconciler is. Resources are named as in fake.Commit: "persistentvolumes",
// "things.example.com".
type ReconcilerConfig struct {
	Name    string  // of the part
	For     string  // the resource of which each object is a key, whenever it comes, changes or goes
	Watches []Watch // what else makes it look at a key
	Workers int     // how many keys it works on at once; 0: 1

	// Polls says that it asks for ever to be called again after some time, to look at what nobody announces. That does not
	// keep a world from being at rest, and neither do its retries: each time something changed it gets one more turn.
	Polls bool

	// Install brings the custom resources that it is about. See Part.
	Install func(server *fake.Server) error

	// Build makes the reconciler of a new process: at the beginning, after each crash, and for each replica. Its client is
	// made from p.RESTConfig or is p.Client, and reads from the API server; its caches are p.Informers, asked for here. It
	// makes no requests.
	Build func(p ComponentContext) (Reconcile, error)
}

// Watch is a resource whose objects are not keys themselves, but make a reconciler look at some.
type Watch struct {
	Resource string
	// Keys are those that an object is about. Of a change, the object is asked before and after. The object is read-only.
	// nil: the key is the object's controller, if that is of the reconciler's kind.
	Keys func(obj fake.Object) []types.NamespacedName
}

// Reconciler is a part that calls a function for the keys of a queue, as controller-runtime does: a key that is added while
// it waits is one, and a key that is worked on is not worked on a second time before it is done. The function runs in a
// strand of its own. In a stepped world it is suspended at each request, and only there: so it starts no goroutines, and
// does not wait for anything but its requests.
//
// Deadlines in its contexts are of the real clock: a stepped world is long over before they pass.
//
// Differs: any error is tried again, also one that controller-runtime calls terminal; back-off is per key only; objects
// from informers are shared, and read-only.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/internal/controller reconcileHandler, pkg/handler EnqueueRequestForObject,
// EnqueueRequestForOwner, EnqueueRequestsFromMapFunc.
func Reconciler(cfg ReconcilerConfig) Component {
	return Component{Name: cfg.Name, Install: cfg.Install, Start: func(p ComponentContext) error {
		reconcile, err := cfg.Build(p)
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

// worker works on a key of a queue.
func (reconcile Reconcile) worker(c *sim.Process, queue *sim.Queue[types.NamespacedName]) func(context.Context, types.NamespacedName) error {
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

// Informer returns the process's informer of a resource, which is named as in fake.Commit. It is asked for while the part
// starts. Objects of custom resources are of type *unstructured.Unstructured in it.
func (p ComponentContext) Informer(resource string) (cache.SharedIndexInformer, error) {
	k, err := p.lookUpResource(resource)
	if err != nil {
		return nil, err
	}
	informer, err := p.Informers.ForResource(schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Name})
	if err != nil {
		return nil, err
	}
	return informer.Informer(), nil
}

// lookUpResource looks a resource up, in its preferred version.
func (p ComponentContext) lookUpResource(resource string) (servedResource, error) {
	r, ok := p.cluster.server.Resource(resource)
	if !ok {
		return servedResource{}, fmt.Errorf("resource %q: the server does not have it", resource)
	}
	return servedResource{r}, nil
}

// servedResource is a resource as the server serves it.
type servedResource struct{ fake.APIResource }

// watch tells of the keys of what comes, changes and goes.
func (p ComponentContext) watch(w Watch, add func([]types.NamespacedName)) error {
	informer, err := p.Informer(w.Resource)
	if err != nil {
		return err
	}
	told := func(obj any) {
		if gone, unknown := obj.(cache.DeletedFinalStateUnknown); unknown {
			obj = gone.Obj
		}
		add(w.Keys(obj.(fake.Object)))
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    told,
		UpdateFunc: func(was, is any) { told(was); told(is) },
		DeleteFunc: told,
	})
	return err
}

func keyOf(obj fake.Object) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

// controllerOf is the key of an object's controller, if that is of this kind.
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
