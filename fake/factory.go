package fake

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	resourceinformers "k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	storagev1 "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/informercache"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim"
)

// A factory has the informers of one process. It may be used by the process's tasks, and before the
// host starts.
type factory struct {
	informers.SharedInformerFactory // for groups that the server lacks: over unservedClient

	server  *Server
	process *sim.Process
	user    *authenticationv1.UserInfo // see Server.SetUser; nil: system:admin
	filters map[string]resourceFilter  // by resource; without an entry: all objects
	// views has the informers by type, and customs those of custom resources. They are written under
	// Server.hooks, and read under it by other processes.
	views   map[reflect.Type]*informer
	customs map[*table]*informer
	delays  map[*table]int // age of the first lists in events; see Server.DelayCache
	// The groups of the same factory in each world; see Server.Informers.
	core    *coreGroup
	storage *storageGroup
}

// A coreGroup has the informers of the core group.
type coreGroup struct {
	core.Interface
	v1 corev1.Interface
}

// V1 returns the informers of version 1.
func (g *coreGroup) V1() corev1.Interface { return g.v1 }

// A storageGroup has the informers of the group storage.k8s.io.
type storageGroup struct {
	storage.Interface
	v1 storagev1.Interface
}

// V1 returns the informers of version 1.
func (g *storageGroup) V1() storagev1.Interface { return g.v1 }

var _ informers.SharedInformerFactory = (*factory)(nil)

// Informers returns the informer factory of a process, the same for each call. It creates an
// informer at the first request. The process's host delivers the events, so Start and Shutdown do
// nothing. WaitForCacheSync returns the present state without waiting. Namespace and resync period
// cannot be set. filters, given with the process's first call, limit its informers.
//
// ForResource also returns informers of custom resources that are served by then, each in one
// version. Their objects are *unstructured.Unstructured, as in client-go's dynamicinformer. For a
// resource that the server lacks, the result is client-go's informer over a client that answers
// 404: it never syncs.
func (s *Server) Informers(c *sim.Process, filters ...Filter) informers.SharedInformerFactory {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	f, ok := s.factories[c]
	if !ok {
		memory := c.Reuse()
		var used bool
		if f, used = reuse.Get[factory](memory); used {
			*f = factory{core: f.core, storage: f.storage}
		} else {
			ofCore, ofStorage := core.New(f, "", nil), storage.New(f, "", nil)
			f.core, f.storage = &coreGroup{ofCore, ofCore.V1()}, &storageGroup{ofStorage, ofStorage.V1()}
		}
		f.SharedInformerFactory = informers.NewSharedInformerFactory(unservedClient(), 0)
		f.server, f.process = s, c
		f.filters = reuse.Map[string, resourceFilter](memory)
		f.views = reuse.Map[reflect.Type, *informer](memory)
		f.customs = reuse.Map[*table, *informer](memory)
		s.factories[c] = f
	}
	for _, filter := range filters {
		sel, err := newSelector(s.table(filter.Resource).kind, "", &metav1.ListOptions{FieldSelector: filter.Fields})
		if err != nil {
			panic(fmt.Sprintf("fake: invalid filter %+v: %v", filter, err))
		}
		f.filters[filter.Resource] = resourceFilter{sel, filter.Match}
	}
	return f
}

// A Filter limits a process's informer of a resource to the objects that a field selector selects.
// For example, a kubelet watches pods with "spec.nodeName=node-1". An unsupported selector panics.
type Filter struct {
	Resource string // such as "pods"
	Fields   string
	// Match reports whether a change concerns the process. old is nil for an object that is added
	// to the cache, obj for one that is removed. Other changes are applied to the cache without a
	// scheduling step, and without calling the handlers. Match is called in the process's monitor,
	// possibly several times for a change. Its result must depend only on the change and on what
	// the process has seen. nil: every change concerns the process.
	Match func(old, obj Object) bool
}

// A resourceFilter is a Filter with its selector parsed.
type resourceFilter struct {
	selector selector
	match    func(old, obj Object) bool
}

// InformerFor returns the informer of the type of obj.
func (f *factory) InformerFor(obj runtime.Object,
	newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	t := reflect.TypeOf(obj)
	if v, ok := f.views[t]; ok {
		return v
	}
	if k, ok := kindsByType[t]; ok {
		of, ok := f.filters[k.resource]
		if !ok {
			of.selector = selector{kind: k}
		}
		v := newInformer(f.server, f.server.tableOf(k), of, f.process)
		v.delay, v.user = f.delays[v.table], f.user
		f.server.hooks.Lock()
		defer f.server.hooks.Unlock()
		f.views[t] = v
		return v
	}
	return f.SharedInformerFactory.InformerFor(obj, newFunc)
}

// kindsByType has the kinds of stored resources by Go type.
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

// kindsByID has the kinds by id.
var kindsByID = func() map[string]*kind {
	m := make(map[string]*kind, len(kinds))
	for _, k := range kinds {
		m[k.id] = k
	}
	return m
}()

// ForResource returns the informer of a resource.
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

// ofKind returns the informer of a stored kind.
func (f *factory) ofKind(k *kind) (*informer, error) {
	if k.custom != nil {
		return f.custom(k)
	}
	return f.InformerFor(k.empty(), nil).(*informer), nil
}

// custom returns the informer of a custom resource.
func (f *factory) custom(k *kind) (*informer, error) {
	t := f.server.tableOf(k)
	if v, ok := f.customs[t]; ok {
		if v.version.gvk != k.gvk {
			return nil, fmt.Errorf("informer of %s in version %q: already created in version %q", k.id, k.gvk.Version,
				v.version.gvk.Version)
		}
		return v, nil
	}
	of, ok := f.filters[k.id]
	if !ok {
		of.selector = selector{kind: k}
	}
	v := newInformer(f.server, t, of, f.process)
	v.version, v.delay, v.user = k, f.delays[t], f.user
	f.server.hooks.Lock()
	defer f.server.hooks.Unlock()
	f.customs[t] = v
	return v, nil
}

// all returns the informers, in no particular order.
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

func (f *factory) Start(<-chan struct{})                                  {}
func (f *factory) StartWithContext(context.Context)                       {}
func (f *factory) Shutdown()                                              {}
func (f *factory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool { return f.synced() }

func (f *factory) synced() map[reflect.Type]bool {
	synced := make(map[reflect.Type]bool, len(f.views))
	for t, v := range f.views {
		synced[t] = v.HasSynced()
	}
	return synced
}

// Core returns the informers of the core group.
func (f *factory) Core() core.Interface { return f.core }

// Storage returns the informers of the group storage.k8s.io.
func (f *factory) Storage() storage.Interface { return f.storage }

// Apps returns the informers of the group apps.
func (f *factory) Apps() apps.Interface { return apps.New(f, "", nil) }

// Batch returns the informers of the group batch.
func (f *factory) Batch() batch.Interface { return batch.New(f, "", nil) }

// Autoscaling returns the informers of the group autoscaling. Those of version 1 never sync.
func (f *factory) Autoscaling() autoscaling.Interface { return autoscaling.New(f, "", nil) }

// Admissionregistration returns the informers of the group admissionregistration.k8s.io.
func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}

// Networking returns the informers of the group networking.k8s.io.
func (f *factory) Networking() networking.Interface { return networking.New(f, "", nil) }

// Coordination returns the informers of the group coordination.k8s.io.
func (f *factory) Coordination() coordination.Interface { return coordination.New(f, "", nil) }

// Policy returns the informers of the group policy.
func (f *factory) Policy() policy.Interface { return policy.New(f, "", nil) }

// Rbac returns the informers of the group rbac.authorization.k8s.io.
func (f *factory) Rbac() rbac.Interface { return rbac.New(f, "", nil) }

// Resource returns the informers of the group resource.k8s.io.
func (f *factory) Resource() resourceinformers.Interface { return resourceinformers.New(f, "", nil) }

// Scheduling returns the informers of the group scheduling.k8s.io.
func (f *factory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
