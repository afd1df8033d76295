package known

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/pvcontroller"
)

// startsWithoutVolumes returns the PersistentVolume controller. The broken one starts with an empty
// cache of volumes.
func startsWithoutVolumes(broken bool) []cluster.Component {
	return []cluster.Component{{Name: "pvcontroller", Start: func(p cluster.ComponentContext) error {
		if broken {
			p.Informers = hasty{p.Informers}
		}
		pvcontroller.New(pvcontroller.Config{
			Process: p.Process, Client: p.Client, Informers: p.Informers,
			Recorder: p.Recorder(pvcontroller.EventSource),
		})
		return nil
	}}}
}

// hasty are caches with an empty first list of volumes.
type (
	hasty struct {
		informers.SharedInformerFactory
	}
	hastyInformer struct{ cache.SharedIndexInformer }
	hastyIndexer  struct {
		cache.Indexer
		asked *bool
	}
)

// Core returns the caches of the core group.
func (h hasty) Core() coreinformers.Interface { return coreinformers.New(h, "", nil) }

// InformerFor returns a cache.
func (h hasty) InformerFor(
	obj runtime.Object, newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	informer := h.SharedInformerFactory.InformerFor(obj, newFunc)
	if _, ok := obj.(*corev1.PersistentVolume); ok {
		return hastyInformer{informer}
	}
	return informer
}

// GetIndexer returns an indexer whose first list is empty.
func (h hastyInformer) GetIndexer() cache.Indexer {
	return hastyIndexer{h.SharedIndexInformer.GetIndexer(), new(bool)}
}

// List returns nothing at first.
func (h hastyIndexer) List() []any {
	if !*h.asked {
		*h.asked = true
		return nil
	}
	return h.Indexer.List()
}
