package admission

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// params lists the stored objects of a resource as the parameters of policies: custom objects as unstructured, others
// without apiVersion and kind, as informers have them.
type params struct {
	server    *fake.Server
	resource  schema.GroupVersionResource
	namespace string // "": all
}

var (
	_ informers.GenericInformer = params{}
	_ cache.GenericLister       = params{}
)

// isListed reports whether a resource has objects that can be listed.
func isListed(r *fake.APIResource) bool { return slices.Contains(r.Verbs, "list") }

// synced is an informer of which only the question is answered whether it is filled.
type synced struct{ cache.SharedIndexInformer }

// HasSynced reports whether the informer is filled: always.
func (synced) HasSynced() bool { return true }

// Informer implements informers.GenericInformer.
func (params) Informer() cache.SharedIndexInformer { return synced{} }

// Lister implements informers.GenericInformer.
func (p params) Lister() cache.GenericLister { return p }

// ByNamespace implements cache.GenericLister.
func (p params) ByNamespace(namespace string) cache.GenericNamespaceLister {
	p.namespace = namespace
	return p
}

// List implements cache.GenericLister.
func (p params) List(selector labels.Selector) ([]runtime.Object, error) {
	client, ok := p.client()
	if !ok {
		return nil, nil
	}
	all, err := client.List(context.Background(), metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	var out []runtime.Object
	for _, obj := range all.Objects {
		param, err := exposed(obj)
		if err != nil {
			return nil, err
		}
		out = append(out, param)
	}
	return out, nil
}

// Get implements cache.GenericLister.
func (p params) Get(name string) (runtime.Object, error) {
	client, ok := p.client()
	if !ok {
		return nil, apierrors.NewNotFound(p.resource.GroupResource(), name)
	}
	obj, err := client.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return exposed(obj)
}

// client returns the client of the resource. The bool is false if it is not served any more.
func (p params) client() (fake.ResourceClient, bool) {
	return p.server.Client(sim.DirectCaller()).Resource(p.resource, p.namespace)
}
