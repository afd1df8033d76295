package fake

import (
	"errors"
	"fmt"
	"reflect"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volsim/volsim/sim"
)

// NewClientset returns a client of a new server, on the wall clock, with the given objects. It has
// the signature of client-go's fake clientset; docs/migrating.md lists the differences. It panics
// if an object cannot be stored. See [Server.Add].
func NewClientset(objects ...runtime.Object) *Clientset {
	caller := sim.DirectCaller()
	s := NewServer(Config{Now: caller.Now, SkipBootstrap: true})
	if err := s.Add(objects...); err != nil {
		panic("fake: NewClientset: " + err.Error())
	}
	return s.Client(caller)
}

// NewSimpleClientset is [NewClientset] under the older name of client-go's fake clientset.
func NewSimpleClientset(objects ...runtime.Object) *Clientset { return NewClientset(objects...) }

// Server returns the client's server.
func (c *Clientset) Server() *Server {
	c.mustHaveServer()
	return c.server
}

// Add stores objects as they are. There is no admission, and only name and namespace are validated.
// Status, finalizers, deletionTimestamp, generation and UID are kept.
//
// Add sets defaults as the server does for objects that it reads from etcd. It sets a UID and a
// creationTimestamp if there is none, and always a resourceVersion. It creates missing namespaces.
// A list stands for its items. An unstructured object is converted to its kind, and so is an object
// of a Go type that the server does not know, such as a type of the user's own API. The latter needs
// its TypeMeta, as the server has no scheme. An object that exists already is an error, except a
// namespace, which is replaced. Arguments are not retained. After an error the objects before the
// failed one are stored.
func (s *Server) Add(objects ...runtime.Object) error {
	for i, obj := range objects {
		if err := s.addAny(obj); err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
	}
	return nil
}

func (s *Server) addAny(obj runtime.Object) error {
	if obj == nil || reflect.ValueOf(obj).IsZero() {
		return errors.New("nil object")
	}
	if !meta.IsListType(obj) {
		return s.add(obj)
	}
	items, err := meta.ExtractList(obj)
	if err != nil {
		return fmt.Errorf("%T: %w", obj, err)
	}
	for i, item := range items {
		if err := s.addAny(item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// AddShared is Add for one object of a custom resource, without copying it: its content must not be modified
// afterwards. Its metadata belongs to the server then. Objects of several servers may share a content.
func (s *Server) AddShared(obj *CustomObject) error {
	k := s.catalog.Load().kindOf(obj.GroupVersionKind())
	if k == nil || k.custom == nil {
		return fmt.Errorf("%T %s: kind not served", obj, obj.GroupVersionKind())
	}
	return s.addResolved(k, obj)
}

// add stores one object.
func (s *Server) add(given runtime.Object) error {
	k, obj, err := s.resolve(given)
	if err != nil {
		return err
	}
	return s.addResolved(k, obj)
}

// addResolved stores an object of a kind.
func (s *Server) addResolved(k *kind, obj Object) error {
	m := metaOf(obj)
	switch {
	case !k.namespaced:
		m.Namespace = ""
	case m.Namespace == "":
		return fmt.Errorf("%s %q: namespace required", k.gvk.Kind, m.Name)
	case s.lookup(s.table("namespaces"), m.Namespace) == nil:
		s.addNamespace(m.Namespace)
	}
	if m.Name == "" {
		return fmt.Errorf("%s: name required", k.gvk.Kind)
	}
	return s.store(k, obj)
}

// resolve returns the kind of an object, and a copy of it.
func (s *Server) resolve(given runtime.Object) (*kind, Object, error) {
	k, ok := kindsByType[reflect.TypeOf(given)]
	if ok {
		return k, given.DeepCopyObject().(Object), nil
	}
	if event, ok := given.(*eventsv1.Event); ok {
		return kindsByID["events"], fromEventsV1(event.DeepCopy()), nil
	}
	gvk := given.GetObjectKind().GroupVersionKind()
	k = s.catalog.Load().kindOf(gvk)
	switch o := given.(type) {
	case *unstructured.Unstructured:
		if k != nil {
			obj, err := k.typed(o.DeepCopy(), metav1.FieldValidationIgnore)
			return k, obj, err
		}
	case *CustomObject:
		if k != nil && k.custom != nil {
			return k, o.DeepCopyObject().(Object), nil
		}
	case Object:
		if known, _, err := scheme.Scheme.ObjectKinds(given); gvk.Empty() && err == nil {
			return nil, nil, fmt.Errorf("%T %s: kind not served", given, known[0])
		}
		if gvk.Empty() {
			return nil, nil, fmt.Errorf("%T: apiVersion and kind are empty: set its TypeMeta, or call SetGroupVersionKind", given)
		}
		if k != nil {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return nil, nil, fmt.Errorf("%T %s: %w", given, gvk, err)
			}
			obj, err := k.typed(&unstructured.Unstructured{Object: content}, metav1.FieldValidationIgnore)
			return k, obj, err
		}
	}
	return nil, nil, fmt.Errorf("%T %s: kind not served", given, gvk)
}

// kindOf returns the served kind, or nil.
func (c *catalog) kindOf(gvk schema.GroupVersionKind) *kind {
	for _, k := range c.kinds {
		if k.gvk.GroupKind() != gvk.GroupKind() {
			continue
		}
		if _, ok := c.served[gvk.GroupVersion().WithResource(k.resource)]; ok {
			return k
		}
	}
	return nil
}

// store stores an object as it is, except for what the server must set.
func (s *Server) store(k *kind, obj Object) error {
	m, t := metaOf(obj), s.tableOf(k)
	key := key(m.Namespace, m.Name)
	old := s.lookup(t, key)
	if old != nil && k.id != "namespaces" {
		return apierrors.NewAlreadyExists(k.groupResource(), m.Name)
	}
	clean(obj)
	k.defaults(obj)
	if old != nil && m.UID == "" {
		m.UID = old.GetUID()
	}
	if m.UID == "" {
		m.UID = s.newUID(k.resource, key)
	}
	if m.CreationTimestamp.IsZero() {
		m.CreationTimestamp = s.timestamp()
	}
	event := watch.Added
	if old != nil {
		event = watch.Modified
	}
	if !s.commit(t, event, key, old, obj) {
		return apierrors.NewConflict(k.groupResource(), m.Name, errors.New(staleMsg))
	}
	return nil
}
