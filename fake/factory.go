package fake

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	resourceinformers "k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/informercache"
	"github.com/volsim/volsim/sim"
)

// factory gives one component its views. Like them it is for the component's strands, or for before the host starts.
type factory struct {
	informers.SharedInformerFactory // for the groups the server does not have: over the refusing client

	server    *Server
	component *sim.Process
	filters   map[string]resourceFilter // by resource, of those that are not of all
	views     map[reflect.Type]*informer
	customs   map[*table]*informer // of custom resources
	lag       map[*table]int       // how old the first lists are; see Server.Lag
}

var _ informers.SharedInformerFactory = (*factory)(nil)

// Informers returns the component's views, made as they are asked for, each at most once; the same factory for the same
// component. A view is moved by the component's host, so that Start, Shutdown and their like have nothing to do: they
// return at once, and WaitForCacheSync tells how things are without waiting. Namespace and resync period of a factory
// cannot be chosen; selections, given with the component's first call, limit its views.
//
// ForResource also gives views of custom resources that are served by then, in one version each: what is in them is a
// *unstructured.Unstructured, as in the informers of client-go's dynamicinformer. For a resource the server does not have,
// the factory gives client-go's own informer over a client that refuses: it never syncs, and is not started.
func (s *Server) Informers(c *sim.Process, selections ...Filter) informers.SharedInformerFactory {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	f, ok := s.factories[c]
	if !ok {
		f = &factory{
			SharedInformerFactory: informers.NewSharedInformerFactory(unservedClient(), 0),
			server:                s, component: c, filters: map[string]resourceFilter{},
			views: map[reflect.Type]*informer{}, customs: map[*table]*informer{},
		}
		s.factories[c] = f
	}
	for _, selection := range selections {
		sel, err := newSelector(s.table(selection.Resource).kind, "", &metav1.ListOptions{FieldSelector: selection.Fields})
		if err != nil {
			panic(fmt.Sprintf("fake: selection %+v: %v", selection, err))
		}
		f.filters[selection.Resource] = resourceFilter{sel, selection.Match}
	}
	return f
}

// Filter limits a component's view of a resource to the objects that a field selector selects, as a kubelet's view of
// pods is limited to "spec.nodeName=node-1". A selector that the resource does not know panics.
type Filter struct {
	Resource string // such as "pods"
	Fields   string
	// Match tells whether the component has anything to do about an object that comes into the view (was is nil),
	// changes, or leaves it (is is nil). The view takes in what does not concern it without a step of the host, and its
	// handlers do not hear of it. It is asked in the component's monitor, maybe several times of one change; what it says
	// must depend on the change, or on what the component has seen. nil: everything does.
	Match func(was, is Object) bool
}

// resourceFilter is a selection as a view needs it.
type resourceFilter struct {
	selector selector
	match    func(was, is Object) bool
}

// InformerFor returns the view of the type of obj.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	t := reflect.TypeOf(obj)
	if v, ok := f.views[t]; ok {
		return v
	}
	if k, ok := kindsByType[t]; ok {
		of, ok := f.filters[k.resource]
		if !ok {
			of.selector = selector{kind: k}
		}
		v := newInformer(f.server, f.server.tableOf(k), of, f.component)
		v.lag = f.lag[v.table]
		f.views[t] = v
		return v
	}
	return f.SharedInformerFactory.InformerFor(obj, newFunc)
}

// kindsByType is the table of resources by the type of their objects.
var kindsByType = func() map[reflect.Type]*kind {
	m := make(map[reflect.Type]*kind, len(kinds))
	for _, k := range kinds {
		if k.base != nil {
			continue
		}
		m[reflect.TypeOf(k.empty())] = k
	}
	return m
}()

// kindsByID is the table of resources by id.
var kindsByID = func() map[string]*kind {
	m := make(map[string]*kind, len(kinds))
	for _, k := range kinds {
		m[k.id] = k
	}
	return m
}()

// ForResource returns the view of a resource.
func (f *factory) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	k, ok := f.server.catalog.Load().served[r]
	switch {
	case ok && k.custom != nil:
		v, err := f.custom(k)
		if err != nil {
			return nil, err
		}
		return informercache.Generic(v, r.GroupResource()), nil
	case ok && k.base == nil:
		return informercache.Generic(f.InformerFor(k.empty(), nil), r.GroupResource()), nil
	default:
		return f.SharedInformerFactory.ForResource(r)
	}
}

// custom returns the view of a custom resource.
func (f *factory) custom(k *kind) (*informer, error) {
	t := f.server.tableOf(k)
	if v, ok := f.customs[t]; ok {
		if v.shown != k {
			return nil, fmt.Errorf("view of %s in version %s: there is one in version %s", k.id, k.gvk.Version, v.shown.gvk.Version)
		}
		return v, nil
	}
	of, ok := f.filters[k.id]
	if !ok {
		of.selector = selector{kind: k}
	}
	v := newInformer(f.server, t, of, f.component)
	v.shown, v.lag = k, f.lag[t]
	f.customs[t] = v
	return v, nil
}

// all are the views there are, in no order.
func (f *factory) all() iter.Seq[*informer] {
	return func(yield func(*informer) bool) {
		for _, v := range f.views {
			if !yield(v) {
				return
			}
		}
		for _, v := range f.customs {
			if !yield(v) {
				return
			}
		}
	}
}

func (f *factory) InformerName() *cache.InformerName                      { return nil }
func (f *factory) Start(<-chan struct{})                                  {}
func (f *factory) StartWithContext(context.Context)                       {}
func (f *factory) Shutdown()                                              {}
func (f *factory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool { return f.synced() }

func (f *factory) WaitForCacheSyncWithContext(context.Context) cache.SyncResult {
	return cache.SyncResult{Synced: f.synced()}
}

func (f *factory) synced() map[reflect.Type]bool {
	synced := make(map[reflect.Type]bool, len(f.views))
	for t, v := range f.views {
		synced[t] = v.HasSynced()
	}
	return synced
}

// Core is the core group, over this factory.
func (f *factory) Core() core.Interface { return core.New(f, "", nil) }

// Storage is the storage group, over this factory.
func (f *factory) Storage() storage.Interface { return storage.New(f, "", nil) }

// Apps is the group apps, over this factory.
func (f *factory) Apps() apps.Interface { return apps.New(f, "", nil) }

// Coordination is the group coordination.k8s.io, over this factory.
func (f *factory) Coordination() coordination.Interface { return coordination.New(f, "", nil) }

// Policy is the group policy, over this factory.
func (f *factory) Policy() policy.Interface { return policy.New(f, "", nil) }

// Rbac is the group rbac.authorization.k8s.io, over this factory.
func (f *factory) Rbac() rbac.Interface { return rbac.New(f, "", nil) }

// Resource is the group resource.k8s.io, over this factory.
func (f *factory) Resource() resourceinformers.Interface { return resourceinformers.New(f, "", nil) }

// Scheduling is the group scheduling.k8s.io, over this factory.
func (f *factory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
