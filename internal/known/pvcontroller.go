package known

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	clientset "k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
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

// VolumeController returns the PersistentVolume controller over a client, with its own directories. It
// calls more, if that is not nil, when the controller has started.
func VolumeController(clientOf func(p cluster.ComponentContext) clientset.Interface,
	more func(p cluster.ComponentContext),
) []cluster.Component {
	return []cluster.Component{{Name: "pvcontroller", Start: func(p cluster.ComponentContext) error {
		var manager plugins.Manager
		machine := hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
		if err := manager.Register(hostpath.New(hostpath.Config{Caller: p.Process, Machine: machine})); err != nil {
			return err
		}
		pvcontroller.New(pvcontroller.Config{
			Process: p.Process, Client: clientOf(p), Informers: p.Informers,
			Recorder: p.Recorder(pvcontroller.EventSource), Plugins: &manager,
		})
		if more != nil {
			more(p)
		}
		return nil
	}}}
}

// OwnClient returns the client of a component.
func OwnClient(p cluster.ComponentContext) clientset.Interface { return p.Client }

// cachedClaims returns the PersistentVolume controller. The broken one, like upstream's, looks up the
// claim of a released volume in its cache.
//
// Upstream: pkg/controller/volume/persistentvolume isVolumeReleased (v1.36).
func cachedClaims(broken bool) []cluster.Component {
	if !broken {
		return VolumeController(OwnClient, nil)
	}
	return VolumeController(func(p cluster.ComponentContext) clientset.Interface {
		return cachedClient{
			p.Client, p.Informers.Core().V1().PersistentVolumeClaims().Lister(),
			p.Informers.Core().V1().PersistentVolumes().Lister(),
		}
	}, nil)
}

// cachedClient gets claims of released volumes from a cache.
type (
	cachedClient struct {
		clientset.Interface
		claims  corelisters.PersistentVolumeClaimLister
		volumes corelisters.PersistentVolumeLister
	}
	cachedCore struct {
		typedcorev1.CoreV1Interface
		cachedClient
	}
	cachedClaimsOf struct {
		typedcorev1.PersistentVolumeClaimInterface
		cachedClient
		namespace string
	}
)

// CoreV1 returns the client of the core group.
func (c cachedClient) CoreV1() typedcorev1.CoreV1Interface {
	return cachedCore{c.Interface.CoreV1(), c}
}

// PersistentVolumeClaims returns the client of claims.
func (c cachedCore) PersistentVolumeClaims(namespace string) typedcorev1.PersistentVolumeClaimInterface {
	return cachedClaimsOf{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.cachedClient, namespace}
}

// Get returns a claim, from the cache if a released volume refers to it.
func (c cachedClaimsOf) Get(ctx context.Context, name string,
	opts metav1.GetOptions,
) (*corev1.PersistentVolumeClaim, error) {
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, v := range volumes { // in any order: one is enough
		ref := v.Spec.ClaimRef
		if ref != nil && ref.Namespace == c.namespace && ref.Name == name && v.Status.Phase == corev1.VolumeReleased {
			return c.claims.PersistentVolumeClaims(c.namespace).Get(name)
		}
	}
	return c.PersistentVolumeClaimInterface.Get(ctx, name, opts)
}
