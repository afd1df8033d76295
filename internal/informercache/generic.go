package informercache

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Generic returns an informer as an informers.GenericInformer.
func Generic(informer cache.SharedIndexInformer, resource schema.GroupResource) informers.GenericInformer {
	return generic{informer, resource}
}

type generic struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }

func (g generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
