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

	"github.com/volsim/volsim/sim"
)

// NewClientset returns a client of a server of its own, on the real clock, that holds the given objects. It has the call
// shape of client-go's, for tests that have one now; the package's documentation says what such a test meets. A seed
// that cannot be stored panics. See [Server.Add].
func NewClientset(objects ...runtime.Object) *Clientset {
	caller := sim.DirectCaller()
	s := NewServer(Config{Now: caller.Now, SkipBootstrap: true})
	if err := s.Add(objects...); err != nil {
		panic("fake: NewClientset: " + err.Error())
	}
	return s.Client(caller)
}

// Server returns the server that the client is of.
func (c *Clientset) Server() *Server { return c.server }

// Add stores objects as they are, without asking whether a user could have made them: no admission, no validation but of
// name and namespace; status, finalizers, deletionTimestamp, generation and a UID are kept. What the server needs is
// filled in: defaults, as it fills them in when it reads from etcd, a UID and a creationTimestamp where there is none,
// and always a resourceVersion. A namespace that is not there is made. A list stands for its items, and an
// unstructured object for what it says it is. An object that is there already is an error, except a namespace, which is
// replaced. Nothing of what is given is kept. When it fails, the objects before the bad one have been stored.
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
		return errors.New("it is nil")
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

// add stores one object.
func (s *Server) add(given runtime.Object) error {
	k, obj, err := s.resolve(given)
	if err != nil {
		return err
	}
	m := metaOf(obj)
	switch {
	case !k.namespaced:
		m.Namespace = ""
	case m.Namespace == "":
		return fmt.Errorf("%s %q: it has no namespace", k.gvk.Kind, m.Name)
	case s.lookup(s.table("namespaces"), m.Namespace) == nil:
		s.addNamespace(m.Namespace)
	}
	if m.Name == "" {
		return fmt.Errorf("%s: it has no name", k.gvk.Kind)
	}
	return s.store(k, obj)
}

// resolve finds out what an object is, and copies it.
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
	}
	return nil, nil, fmt.Errorf("%T %s: the server does not have this kind", given, gvk)
}

// kindOf finds the kind that is served under a name; nil: none.
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

// store stores an object as it is, but for what the server has to fill in.
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
