package fake

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/sim"
)

// factory gives one component its views. Like them it is for the component's strands, or for before the host starts.
type factory struct {
	informers.SharedInformerFactory // for the groups the server does not have: over the refusing client

	server    *Server
	component *sim.Component
	selectors map[string]selector // by resource, of those that are not of all
	views     map[reflect.Type]*View
}

var _ informers.SharedInformerFactory = (*factory)(nil)

// Informers returns the component's views, made as they are asked for, each at most once; the same factory for the same
// component. A view is moved by the component's host, so that Start, Shutdown and their like have nothing to do: they
// return at once, and WaitForCacheSync tells how things are without waiting. Namespace and resync period of a factory
// cannot be chosen; selections, given with the component's first call, limit its views. For a resource the server does not have, it gives client-go's own informer over a client
// that refuses: it never syncs, and is not started.
func (s *Server) Informers(c *sim.Component, selections ...Selection) informers.SharedInformerFactory {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	f, ok := s.factories[c]
	if !ok {
		f = &factory{
			SharedInformerFactory: informers.NewSharedInformerFactory(refusing(), 0),
			server:                s, component: c, selectors: map[string]selector{}, views: map[reflect.Type]*View{},
		}
		s.factories[c] = f
	}
	for _, selection := range selections {
		sel, err := newSelector(s.table(selection.Resource).kind, "", &metav1.ListOptions{FieldSelector: selection.Fields})
		if err != nil {
			panic(fmt.Sprintf("fake: selection %+v: %v", selection, err))
		}
		f.selectors[selection.Resource] = sel
	}
	return f
}

// Selection limits a component's view of a resource to the objects that a field selector selects, as a kubelet's view of
// pods is limited to "spec.nodeName=node-1". A selector that the resource does not know panics.
type Selection struct {
	Resource string // such as "pods"
	Fields   string
}

// InformerFor returns the view of the type of obj.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	t := reflect.TypeOf(obj)
	if v, ok := f.views[t]; ok {
		return v
	}
	if k, ok := kindsByType[t]; ok {
		sel, ok := f.selectors[k.resource]
		if !ok {
			sel = selector{kind: k}
		}
		v := newView(f.server, f.server.tables[k.resource], sel, f.component)
		f.views[t] = v
		return v
	}
	return f.SharedInformerFactory.InformerFor(obj, newFunc)
}

// kindsByType is the table of resources by the type of their objects.
var kindsByType = func() map[reflect.Type]*kind {
	m := make(map[reflect.Type]*kind, len(kinds))
	for _, k := range kinds {
		m[reflect.TypeOf(k.empty())] = k
	}
	return m
}()

// ForResource returns the view of a resource.
func (f *factory) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	for _, k := range kinds {
		if k.gvk.GroupVersion().WithResource(k.resource) == r {
			return generic{f.InformerFor(k.empty(), nil), r.GroupResource()}, nil
		}
	}
	return f.SharedInformerFactory.ForResource(r)
}

// generic is a view that need not be named by type.
type generic struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }
func (g generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
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
