package customresource

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A Client makes requests for the objects of a kind. Its errors are those of the API server.
type Client[T any, P Object[T]] struct {
	kind Kind[T, P]
	from dynamic.NamespaceableResourceInterface
}

// Client returns a client of the kind.
func (k Kind[T, P]) Client(from dynamic.Interface) Client[T, P] {
	return Client[T, P]{k, from.Resource(k.Resource)}
}

// in returns the client of a namespace; "" for a kind without namespaces.
func (c Client[T, P]) in(namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.from
	}
	return c.from.Namespace(namespace)
}

func (c Client[T, P]) parse(u *unstructured.Unstructured, err error) (P, error) {
	if err != nil {
		return nil, err
	}
	return c.kind.Parse(u)
}

// Get returns an object of the API server.
func (c Client[T, P]) Get(ctx context.Context, namespace, name string) (P, error) {
	return c.parse(c.in(namespace).Get(ctx, name, metav1.GetOptions{}))
}

// Create creates an object and returns it as stored.
func (c Client[T, P]) Create(ctx context.Context, obj P) (P, error) {
	return c.parse(c.in(obj.GetNamespace()).Create(ctx, c.kind.Unstructured(obj), metav1.CreateOptions{}))
}

// Update updates an object, without its status, and returns it as stored.
func (c Client[T, P]) Update(ctx context.Context, obj P) (P, error) {
	return c.parse(c.in(obj.GetNamespace()).Update(ctx, c.kind.Unstructured(obj), metav1.UpdateOptions{}))
}

// UpdateStatus updates the status of an object and returns it as stored.
func (c Client[T, P]) UpdateStatus(ctx context.Context, obj P) (P, error) {
	return c.parse(c.in(obj.GetNamespace()).UpdateStatus(ctx, c.kind.Unstructured(obj), metav1.UpdateOptions{}))
}

// Patch patches an object, or a subresource of it, and returns it as stored.
func (c Client[T, P]) Patch(
	ctx context.Context, namespace, name string, kind types.PatchType, patch []byte, subresources ...string,
) (P, error) {
	return c.parse(c.in(namespace).Patch(ctx, name, kind, patch, metav1.PatchOptions{}, subresources...))
}

// Delete deletes an object.
func (c Client[T, P]) Delete(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) error {
	return c.in(namespace).Delete(ctx, name, opts)
}
