package ctrlruntime

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cachingClient reads from the cache what the clients of managers read from it, and everything
// else from the server.
type cachingClient struct {
	client.Client // writes
	cache         *processCache
	live          client.Client
	unstructured  bool
}

func newCachingClient(live *rest.Config, opts client.Options, direct client.Client, cache *processCache) (client.Client, error) {
	out := &cachingClient{Client: direct, cache: cache}
	if opts.Cache != nil {
		out.unstructured = opts.Cache.Unstructured
		opts.Cache = nil
	}
	var err error
	out.live, err = client.New(live, opts)
	return out, err
}

// reader returns where an object is read.
func (c *cachingClient) reader(obj runtime.Object) client.Reader {
	if _, ok := obj.(runtime.Unstructured); ok && !c.unstructured {
		return c.live
	}
	return c.cache.handle()
}

// Get implements client.Reader.
func (c *cachingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader(obj).Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c *cachingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader(list).List(ctx, list, opts...)
}
