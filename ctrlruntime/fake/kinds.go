package fake

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/volsim/volsim/fake"
)

// kinds are the kinds of a server, to which those of a scheme are added when they are used first.
type kinds struct {
	server *fake.Server
	scheme *runtime.Scheme
	given  meta.RESTMapper // of WithRESTMapper; nil: none
	status map[schema.GroupKind]bool

	mu         sync.Mutex
	ours       map[schema.GroupKind]bool // guarded by mu: the kinds that were added here
	generation int64                     // guarded by mu: of the server when mapper was made
	changes    int                       // guarded by mu: number of changes of the mapper
	mapper     meta.RESTMapper           // guarded by mu: of the server; nil: none yet
}

// add stores an object, or the objects of a list, as they are.
func (k *kinds) add(obj runtime.Object) error {
	if meta.IsListType(obj) {
		return meta.EachListItem(obj, k.add)
	}
	kind, err := apiutil.GVKForObject(obj, k.scheme)
	if err != nil {
		return fmt.Errorf("add %T: %w", obj, err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("add %T: %w", obj, err)
	}
	if m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) == 0 {
		return fmt.Errorf("refusing to create obj %s with metadata.deletionTimestamp but no finalizers", m.GetName())
	}
	k.use(kind, m.GetNamespace(), true)
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(kind)
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(metadata)
		if err != nil {
			return err
		}
		obj = &unstructured.Unstructured{Object: content}
	}
	if err := k.server.Add(obj); err != nil {
		return fmt.Errorf("add %s %s: %w", kind.Kind, m.GetName(), err)
	}
	return nil
}

// use makes the server serve a kind, and reports whether it does. The namespace of the first object
// or key says the scope of a custom kind of which nothing else is known: "" means cluster-scoped. If
// it is not known, because the request is one for all namespaces, the kind is not added.
func (k *kinds) use(kind schema.GroupVersionKind, namespace string, known bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	mapping, err := k.restMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil && !k.ours[kind.GroupKind()] {
		return true
	}
	namespaced, resource := namespace != "", plural(strings.ToLower(kind.Kind))
	if k.given != nil {
		if m, err := k.given.RESTMapping(kind.GroupKind(), kind.Version); err == nil {
			namespaced, resource, known = m.Scope.Name() == meta.RESTScopeNameNamespace, m.Resource.Resource, true
		}
	}
	id := resource
	if kind.Group != "" {
		id += "." + kind.Group
	}
	switch {
	case err != nil && !known:
		return false
	case err == nil && (!known || namespaced == (mapping.Scope.Name() == meta.RESTScopeNameNamespace) || k.server.Count(id) > 0):
		return true
	case err == nil:
		k.server.Uninstall(kind.Group, resource) // it was used with the other scope, but never created
	}
	versions := []string{kind.Version}
	for _, version := range k.scheme.VersionsForGroupKind(kind.GroupKind()) {
		if !slices.Contains(versions, version.Version) && version.Version != runtime.APIVersionInternal {
			versions = append(versions, version.Version)
		}
	}
	k.server.Install(fake.CustomKind{
		Group: kind.Group, Versions: versions, Kind: kind.Kind, ListKind: kind.Kind + "List", Resource: resource,
		Namespaced: namespaced, Status: k.status[kind.GroupKind()] || hasStatus(kind),
	})
	k.ours[kind.GroupKind()] = true
	k.mapper = nil
	return true
}

// plural returns the plural of an English noun, as kubebuilder forms it for most kinds.
func plural(noun string) string {
	for _, ending := range []string{"s", "x", "z", "ch", "sh"} {
		if strings.HasSuffix(noun, ending) {
			return noun + "es"
		}
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.ContainsAny(stem[max(0, len(stem)-1):], "aeiou") {
		return stem + "ies"
	}
	return noun + "s"
}

// hasStatus reports whether a kind of Kubernetes has a status, and thus /status.
func hasStatus(kind schema.GroupVersionKind) bool {
	obj, err := scheme.Scheme.New(kind)
	if err != nil {
		return false
	}
	_, ok := reflect.TypeOf(obj).Elem().FieldByName("Status")
	return ok
}

// restMapper returns the mapper of the kinds that the server serves. The caller holds mu.
func (k *kinds) restMapper() meta.RESTMapper {
	if k.mapper != nil && k.generation == k.server.Generation() {
		return k.mapper
	}
	k.generation = k.server.Generation()
	k.changes++
	resources := k.server.Resources()
	var preferred []schema.GroupVersion
	for _, r := range resources {
		if gv := (schema.GroupVersion{Group: r.Group, Version: r.Version}); !slices.Contains(preferred, gv) {
			preferred = append(preferred, gv)
		}
	}
	mapper := meta.NewDefaultRESTMapper(preferred)
	for _, r := range resources {
		scope := meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		gv := schema.GroupVersion{Group: r.Group, Version: r.Version}
		mapper.AddSpecific(gv.WithKind(r.Kind), gv.WithResource(r.Name), gv.WithResource(r.SingularName), scope)
	}
	k.mapper = mapper
	return mapper
}

// current returns the mapper, and a number that differs between two mappers.
func (k *kinds) current() (meta.RESTMapper, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	mapper := k.restMapper()
	return mapper, k.changes
}

// useObject makes the server serve the kind of an object, or of the items of a list. It reports
// whether the kind is served; an object without a kind is left to the client.
func (k *kinds) useObject(obj runtime.Object, namespace string, known bool) bool {
	kind, err := apiutil.GVKForObject(obj, k.scheme)
	if err != nil {
		return true
	}
	if _, list := obj.(client.ObjectList); list {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	return k.use(kind, namespace, known)
}

// createNamespace creates a namespace that does not exist, so that objects can be created in it.
func (k *kinds) createNamespace(obj runtime.Object, name string) error {
	if name == "" {
		return nil
	}
	if _, exists := k.server.Get("namespaces", "", name); exists {
		return nil
	}
	if kind, err := apiutil.GVKForObject(obj, k.scheme); err == nil {
		mapper, _ := k.current()
		if m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil || m.Scope.Name() != meta.RESTScopeNameNamespace {
			return nil
		}
	}
	if err := k.server.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// errNoIndex returns the error of a field selector without an index.
func errNoIndex(kind schema.GroupVersionKind, field string) error {
	return fmt.Errorf("List on GroupVersionKind %v specifies selector on field %s, but no index with name %[2]s has been registered for GroupVersionKind %[1]v", kind, field) //nolint:staticcheck // upstream's text
}

var errInexactSelector = errors.New("a field selector of an index must be exact: use = or ==")
