package fake

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// Metadata returns a metadata client for all resources, including custom ones. It makes its
// requests as c does.
func (c *Clientset) Metadata() metadata.Interface {
	c.mustHaveServer()
	return metadataClient{c}
}

type metadataClient struct{ c *Clientset }

// IsWatchListSemanticsUnSupported reports whether informers must list first; see Clientset.
func (m metadataClient) IsWatchListSemanticsUnSupported() bool {
	return m.c.IsWatchListSemanticsUnSupported()
}

// Resource returns the client of a resource in all namespaces.
func (m metadataClient) Resource(r schema.GroupVersionResource) metadata.Getter {
	return metadataResource{untypedRoute{c: m.c, resource: r}}
}

// metadataResource is the metadata client of one resource.
//
// Upstream: k8s.io/client-go/metadata.
type metadataResource struct{ untypedRoute }

// Namespace returns the client of the resource in one namespace.
func (m metadataResource) Namespace(namespace string) metadata.ResourceInterface {
	m.namespace = namespace
	return m
}

// Delete deletes an object or begins its deletion. Subresources cannot be deleted.
func (m metadataResource) Delete(ctx context.Context, name string, opts metav1.DeleteOptions, sub ...string) error {
	return m.delete(ctx, name, opts, sub)
}

// DeleteCollection deletes the selected objects.
func (m metadataResource) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions,
	sel metav1.ListOptions,
) error {
	return m.deleteCollection(ctx, opts, sel)
}

// Get reads an object's metadata.
func (m metadataResource) Get(ctx context.Context, name string, opts metav1.GetOptions,
	sub ...string,
) (*metav1.PartialObjectMetadata, error) {
	_, obj, err := m.get(ctx, name, opts, sub)
	if err != nil {
		return nil, err
	}
	return partial(obj), nil
}

// List returns the metadata of the selected objects at one revision.
func (m metadataResource) List(ctx context.Context,
	opts metav1.ListOptions,
) (*metav1.PartialObjectMetadataList, error) {
	r, err := m.all()
	if err != nil {
		return nil, err
	}
	all, err := r.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadataList{
		ListMeta: all.ListMeta,
		Items:    make([]metav1.PartialObjectMetadata, len(all.Objects)),
	}
	out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	for i, obj := range all.Objects {
		out.Items[i] = *partial(obj)
	}
	return out, nil
}

// Watch watches the selected objects. See Watch of the typed clients.
func (m metadataResource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	r, err := m.all()
	if err != nil {
		return nil, err
	}
	return r.stream(ctx, opts, func(obj Object) (runtime.Object, error) { return partial(obj), nil })
}

// Patch patches an object or a subresource.
func (m metadataResource) Patch(ctx context.Context, name string, pt types.PatchType, data []byte,
	opts metav1.PatchOptions, sub ...string,
) (*metav1.PartialObjectMetadata, error) {
	_, done, err := m.patch(ctx, name, pt, data, opts, sub)
	if err != nil {
		return nil, err
	}
	return partial(done.Object), nil
}
