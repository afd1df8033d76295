package customresource

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// A Cache is the objects of a kind as a process has seen them.
type Cache[T any, P Object[T]] struct {
	kind   Kind[T, P]
	lister cache.GenericLister
}

// Cache returns the cache of a kind, and its informer for handlers and indexers.
func (k Kind[T, P]) Cache(from informers.SharedInformerFactory) (Cache[T, P], cache.SharedIndexInformer, error) {
	informer, err := from.ForResource(k.Resource)
	if err != nil {
		return Cache[T, P]{}, nil, err
	}
	return Cache[T, P]{k, informer.Lister()}, informer.Informer(), nil
}

// Get returns an object, or nil if it does not exist. The namespace is "" for a kind without
// namespaces.
func (c Cache[T, P]) Get(namespace, name string) P {
	get := c.lister.Get
	if namespace != "" {
		get = c.lister.ByNamespace(namespace).Get
	}
	obj, err := get(name)
	if err != nil {
		return nil
	}
	typed, err := c.kind.Parse(obj)
	if err != nil {
		return nil
	}
	return typed
}

// List returns the objects of a namespace, or all for "", by namespace and name.
func (c Cache[T, P]) List(namespace string) []P {
	list := c.lister.List
	if namespace != "" {
		list = c.lister.ByNamespace(namespace).List
	}
	all, err := list(labels.Everything())
	if err != nil {
		return nil
	}
	typed := make([]P, 0, len(all))
	for _, obj := range all {
		if t, err := c.kind.Parse(obj); err == nil {
			typed = append(typed, t)
		}
	}
	slices.SortFunc(typed, func(a, b P) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return typed
}
