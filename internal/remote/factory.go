package remote

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/informercache"
)

// factory creates each informer of a process at most once. The process's host applies changes to
// the caches. So Start, Shutdown and similar methods return at once, and WaitForCacheSync reports
// the state without waiting.
type factory struct {
	informers.SharedInformerFactory // for groups of later versions of client-go: its informers never sync

	conn    *Connection
	timeout time.Duration

	mu     sync.Mutex
	feeds  map[reflect.Type]*feed                // guarded by mu
	custom map[schema.GroupVersionResource]*feed // guarded by mu: of custom resources
}

var _ informers.SharedInformerFactory = (*factory)(nil)

func newFactory(conn *Connection, timeout time.Duration) *factory {
	return &factory{
		SharedInformerFactory: informers.NewSharedInformerFactory(conn.client, 0), conn: conn, timeout: timeout, feeds: map[reflect.Type]*feed{},
		custom: map[schema.GroupVersionResource]*feed{},
	}
}

// InformerFor returns the informer of the type of obj. It panics if the type is not in client-go's
// scheme.
func (f *factory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		panic(fmt.Sprintf("remote: informer for %T: %v", obj, err))
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0]) // right for all kinds of the scheme
	feed, err := f.feedOf(resource, obj)
	if err != nil {
		panic(fmt.Sprintf("remote: informer for %T: %v", obj, err))
	}
	return feed
}

// feedOf returns the informer of a resource whose objects have the type of example.
func (f *factory) feedOf(r schema.GroupVersionResource, example runtime.Object) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := reflect.TypeOf(example)
	if feed, ok := f.feeds[t]; ok {
		return feed, nil
	}
	client, err := f.conn.clientOf(r.GroupVersion())
	if err != nil {
		return nil, err
	}
	source := cache.NewFilteredListWatchFromClient(client, r.Resource, metav1.NamespaceAll,
		func(opts *metav1.ListOptions) {
			opts.FieldSelector = f.conn.fields[r.Resource]
		})
	f.feeds[t] = newFeed(f.conn.process, r.Resource, source, example, f.timeout)
	f.conn.start(f.feeds[t])
	return f.feeds[t], nil
}

// cached returns an object in the process's cache. It is nil if there is no such cache or object.
func (f *factory) cached(resource, key string) runtime.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, feed := range append(slices.Collect(maps.Values(f.feeds)), slices.Collect(maps.Values(f.custom))...) {
		if feed.resource == resource {
			obj, _ := feed.Get(key)
			object, _ := obj.(runtime.Object)
			return object
		}
	}
	return nil
}

// clientOf returns a client of a group and version whose requests do not leave the process.
func (c *Connection) clientOf(gv schema.GroupVersion) (*rest.RESTClient, error) {
	cfg := rest.CopyConfig(c.direct)
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = mediaProtobuf, acceptBoth
	return rest.RESTClientFor(cfg)
}

// customFeed returns the informer of a custom resource.
func (f *factory) customFeed(r schema.GroupVersionResource) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if feed, ok := f.custom[r]; ok {
		return feed, nil
	}
	client, err := dynamic.NewForConfig(f.conn.direct)
	if err != nil {
		return nil, err
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(r).List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(r).Watch(ctx, opts)
		},
	}
	f.custom[r] = newFeed(f.conn.process, r.Resource, source, &unstructured.Unstructured{}, f.timeout)
	f.conn.start(f.custom[r])
	return f.custom[r], nil
}

// ForResource returns the informer of a resource of client-go's scheme, or of a custom resource, whose
// objects are unstructured. The latter lists once the resource is served.
func (f *factory) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	if !scheme.Scheme.IsVersionRegistered(r.GroupVersion()) {
		feed, err := f.customFeed(r)
		if err != nil {
			return nil, err
		}
		return informercache.Generic(feed, r.GroupResource()), nil
	}
	for kind := range scheme.Scheme.KnownTypes(r.GroupVersion()) {
		gvk := r.GroupVersion().WithKind(kind)
		if resource, _ := meta.UnsafeGuessKindToResource(gvk); resource != r {
			continue
		}
		example, err := scheme.Scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		feed, err := f.feedOf(r, example)
		if err != nil {
			return nil, err
		}
		return informercache.Generic(feed, r.GroupResource()), nil
	}
	return nil, fmt.Errorf("no informer found for %v", r)
}

func (f *factory) Start(<-chan struct{})                                  {}
func (f *factory) StartWithContext(context.Context)                       {}
func (f *factory) Shutdown()                                              {}
func (f *factory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool { return f.synced() }

func (f *factory) synced() map[reflect.Type]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	synced := make(map[reflect.Type]bool, len(f.feeds))
	for t, feed := range f.feeds {
		synced[t] = feed.HasSynced()
	}
	return synced
}
