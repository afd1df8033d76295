package fake

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status implements client.StatusClient.
func (c *fakeClient) Status() client.SubResourceWriter { return subresource{c, "status"} }

// SubResource implements client.SubResourceClientConstructor.
func (c *fakeClient) SubResource(name string) client.SubResourceClient { return subresource{c, name} }

// A subresource is a client of a subresource.
type subresource struct {
	c    *fakeClient
	name string
}

func (s subresource) do(obj client.Object, request func(inner client.SubResourceClient) error) error {
	return s.c.do(obj, obj.GetNamespace(), func(inner client.WithWatch) error { return request(inner.SubResource(s.name)) })
}

// Get implements client.SubResourceReader.
func (s subresource) Get(ctx context.Context, obj, subResource client.Object, opts ...client.SubResourceGetOption) error {
	return s.do(obj, func(inner client.SubResourceClient) error { return inner.Get(ctx, obj, subResource, opts...) })
}

// Create implements client.SubResourceWriter.
func (s subresource) Create(ctx context.Context, obj, subResource client.Object, opts ...client.SubResourceCreateOption) error {
	return s.do(obj, func(inner client.SubResourceClient) error { return inner.Create(ctx, obj, subResource, opts...) })
}

// Update implements client.SubResourceWriter.
func (s subresource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.do(obj, func(inner client.SubResourceClient) error { return inner.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceWriter.
func (s subresource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.do(obj, func(inner client.SubResourceClient) error { return inner.Patch(ctx, obj, patch, opts...) })
}

// Apply implements client.SubResourceWriter.
func (s subresource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if err := s.c.useApplied(obj); err != nil {
		return err
	}
	inner, err := s.c.inner()
	if err != nil {
		return err
	}
	err = inner.SubResource(s.name).Apply(ctx, obj, opts...)
	s.c.stripApplied(obj)
	return err
}
