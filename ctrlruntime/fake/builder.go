package fake

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/sim"
)

// NewFakeClient returns a client of a new API server with the given objects.
func NewFakeClient(initObjs ...runtime.Object) client.WithWatch {
	return NewClientBuilder().WithRuntimeObjects(initObjs...).Build()
}

// NewClientBuilder returns a builder of a client.
func NewClientBuilder() *ClientBuilder { return &ClientBuilder{} }

// A ClientBuilder builds a client. Its methods are those of controller-runtime's builder.
type ClientBuilder struct {
	scheme        *runtime.Scheme
	mapper        meta.RESTMapper
	objects       []runtime.Object
	withStatus    []client.Object
	tracker       testing.ObjectTracker
	interceptors  *interceptor.Funcs
	managedFields bool
	definitions   []string
	built         bool
	indices       []index
}

// An index is an argument of WithIndex.
type index struct {
	kind    schema.GroupVersionKind
	field   string
	extract client.IndexerFunc
}

// WithScheme sets the scheme of the client. Without it the scheme is client-go's.
func (b *ClientBuilder) WithScheme(s *runtime.Scheme) *ClientBuilder {
	b.scheme = s
	return b
}

// WithRESTMapper sets the RESTMapper of the client, which also says the scope and the resource of
// custom kinds. Without it the client has the mapper of the server.
func (b *ClientBuilder) WithRESTMapper(mapper meta.RESTMapper) *ClientBuilder {
	b.mapper = mapper
	return b
}

// WithObjects adds objects to the server, with status, finalizers and all other fields.
func (b *ClientBuilder) WithObjects(initObjs ...client.Object) *ClientBuilder {
	for _, obj := range initObjs {
		b.objects = append(b.objects, obj)
	}
	return b
}

// WithLists adds the objects of lists to the server.
func (b *ClientBuilder) WithLists(initLists ...client.ObjectList) *ClientBuilder {
	for _, list := range initLists {
		b.objects = append(b.objects, list)
	}
	return b
}

// WithRuntimeObjects adds objects, or those of lists, to the server.
func (b *ClientBuilder) WithRuntimeObjects(initRuntimeObjs ...runtime.Object) *ClientBuilder {
	b.objects = append(b.objects, initRuntimeObjs...)
	return b
}

// WithObjectTracker makes Build panic: the objects are in an API server, which has no tracker.
func (b *ClientBuilder) WithObjectTracker(tracker testing.ObjectTracker) *ClientBuilder {
	b.tracker = tracker
	return b
}

// WithIndex adds an index, by which a list can be selected with client.MatchingFields. It panics if
// the kind has an index for the field.
func (b *ClientBuilder) WithIndex(obj runtime.Object, field string, extractValue client.IndexerFunc) *ClientBuilder {
	s := b.scheme
	if s == nil {
		s = scheme.Scheme
	}
	kind, err := apiutil.GVKForObject(obj, s)
	if err != nil {
		panic(err)
	}
	for _, i := range b.indices {
		if i.kind == kind && i.field == field {
			panic(fmt.Errorf("indexer conflict: field %s for GroupVersionKind %v is already indexed", field, kind))
		}
	}
	b.indices = append(b.indices, index{kind, field, extractValue})
	return b
}

// WithStatusSubresource gives the kinds of the objects, if they are custom, the subresource /status.
// Built-in kinds have it as in Kubernetes.
func (b *ClientBuilder) WithStatusSubresource(o ...client.Object) *ClientBuilder {
	b.withStatus = append(b.withStatus, o...)
	return b
}

// WithInterceptorFuncs makes the client call functions instead of its methods.
func (b *ClientBuilder) WithInterceptorFuncs(interceptorFuncs interceptor.Funcs) *ClientBuilder {
	b.interceptors = &interceptorFuncs
	return b
}

// WithTypeConverters does nothing: the server knows the types of its own kinds, and deduces those of
// custom kinds without a schema.
func (b *ClientBuilder) WithTypeConverters(...managedfields.TypeConverter) *ClientBuilder { return b }

// WithReturnManagedFields makes the client return managed fields, which the server then tracks from
// the creation of an object on.
func (b *ClientBuilder) WithReturnManagedFields() *ClientBuilder {
	b.managedFields = true
	return b
}

// WithGlobalResourceVersionCounter does nothing: the revisions of the server are global.
func (b *ClientBuilder) WithGlobalResourceVersionCounter() *ClientBuilder { return b }

// WithCRDDirectoryPaths makes the server serve the CustomResourceDefinitions in files, and in the
// files of directories: with their schemas, scopes and subresources. The program must import package
// github.com/volsim/volsim/fake/crd. Controller-runtime's builder has no such method.
func (b *ClientBuilder) WithCRDDirectoryPaths(paths ...string) *ClientBuilder {
	b.definitions = append(b.definitions, paths...)
	return b
}

// Build returns the client. It panics if an object cannot be stored.
func (b *ClientBuilder) Build() client.WithWatch {
	if b.built {
		panic("Build() must not be called multiple times when creating a ClientBuilder")
	}
	b.built = true
	out, err := b.build()
	if err != nil {
		panic(fmt.Errorf("fake client: %w", err))
	}
	if b.interceptors != nil {
		return interceptor.NewClient(out, *b.interceptors)
	}
	return out
}

func (b *ClientBuilder) build() (*fakeClient, error) {
	if b.tracker != nil {
		return nil, errors.New("WithObjectTracker: the objects are in an API server, which has no tracker: " +
			"use WithObjects, and WithInterceptorFuncs for errors")
	}
	if b.scheme == nil {
		b.scheme = scheme.Scheme
	}
	caller := sim.DirectCaller()
	server := fake.NewServer(fake.Config{Now: caller.Now, SkipBootstrap: true, TrackManagedFields: b.managedFields})
	if len(b.definitions) > 0 {
		if err := definitions.Install(context.Background(), server, b.definitions); err != nil {
			return nil, err
		}
	}
	k := &kinds{server: server, scheme: b.scheme, given: b.mapper, status: map[schema.GroupKind]bool{}, ours: map[schema.GroupKind]bool{}}
	for _, obj := range b.withStatus {
		kind, err := apiutil.GVKForObject(obj, b.scheme)
		if err != nil {
			return nil, fmt.Errorf("WithStatusSubresource: %T: %w", obj, err)
		}
		k.status[kind.GroupKind()] = true
	}
	for _, obj := range b.objects {
		if err := k.add(obj); err != nil {
			return nil, err
		}
	}
	return newFakeClient(k, caller, b.managedFields, b.indices)
}
