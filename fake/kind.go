package fake

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/fake/internal/rules"
)

// A kind is a row of the table of resources, as the server uses it; strategy is the row as written.
// Nil functions have nothing to do.
type kind struct {
	id         string // of its table; see tableID
	resource   string
	cache      string // name of the tasks of its informers
	gvk        schema.GroupVersionKind
	namespaced bool
	short      []string
	categories []string
	custom     *CustomKind      // nil: built in
	invalid    schema.GroupKind // kind in errors, if it is another one

	// base is set for a kind that is not stored itself but shows another one. events.k8s.io shows
	// the events of the core group, and a Scale shows a StatefulSet. fromStored returns the shown
	// form of a stored object. toStored applies a shown object to a copy of the stored one, nil at
	// a creation.
	base       *kind
	fromStored func(stored Object) (Object, error)
	toStored   func(shown, stored Object) (Object, error)
	// toStorage returns an object of a custom resource in the storage version; fromStored returns
	// it in this kind's version. nil: as it is.
	toStorage func(Object) (Object, error)
	// allFromStored is fromStored for several objects, which a webhook converts in few calls. nil:
	// no webhook converts them.
	allFromStored func(stored []Object) ([]Object, error)

	empty   func() Object
	shallow func(Object) Object // a shallow copy
	copy    func(Object) Object // a deep copy
	// draft returns a copy of the part of obj that may replace old: all but the status or, for a
	// write of /status, the status and the metadata. It may share immutable parts with old. nil:
	// see ResourceClient.draft.
	draft func(obj, old Object, status bool) Object
	list  func(metav1.ListMeta, []Object) runtime.Object
	share func(metav1.ListMeta, []Object) runtime.Object // a list of shallow copies

	name                     func(name string, prefix bool) []string
	defaults                 func(Object)
	copyStatus               func(to, from Object)
	statusUpdatesMetadata    bool
	prepareCreate            func(now metav1.Time, obj, none Object)
	prepareUpdate            func(now metav1.Time, new, old Object)
	prepareStatus            func(now metav1.Time, new, old Object)
	validateCreate           func(obj, none Object) field.ErrorList
	validateUpdate           func(new, old Object) field.ErrorList
	validateStatus           func(new, old Object) field.ErrorList
	warn                     func(new, old Object) []string
	allowUnconditionalUpdate bool
	allowCreateOnUpdate      bool
	grace                    func(obj Object, requested *int64) int64
	dependents               dependents
	field                    func(obj Object, label string) (string, bool)
	fieldError               func(label string) string
	deleteReturnsStatus      bool
	deleteWarning            string
	scale                    *kind                              // shows it as a Scale; nil: no /scale
	scaledBy                 managedfields.ResourcePathMappings // of a Scale: path of the spec replicas in the base
	actions                  map[string]action
}

// An action is a subresource that can only be created: an operation on an object.
type action struct {
	gvk schema.GroupVersionKind // of the body
	run func(s writer, namespace, name string, body runtime.Object, dryRun bool) (actionResult, error)
}

// An actionResult is the result of an action.
type actionResult struct {
	writeResult
	answer runtime.Object
}

// A strategy is a row of the table of resources, as it is written. P is a pointer to its Go type.
type strategy[P Object] struct {
	resource   string
	gvk        schema.GroupVersionKind
	namespaced bool
	short      []string // short names, as kubectl takes them
	categories []string // such as "all"

	rules rules.Set[P]

	copyStatus            func(to, from P) // nil: no /status
	statusUpdatesMetadata bool             // a write of /status also updates the metadata

	allowUnconditionalUpdate bool // an update needs no resourceVersion
	allowCreateOnUpdate      bool // an update of a missing object creates it

	grace      func(obj P, requested *int64) int64 // seconds of grace at deletion; nil: none
	dependents dependents                          // the default propagation policy

	fields     map[string]func(P) string // for field selectors, besides metadata.name and metadata.namespace
	fieldError func(label string) string // error for another field; nil: unknownField

	deleteReturnsStatus bool              // an immediate deletion is answered with a Status, not with the object
	deleteWarning       string            // for a deletion that does not say what happens to the dependents
	actions             map[string]action // by subresource
}

// A pointer is a pointer to an API type.
type pointer[T any] interface {
	*T
	Object
	DeepCopyInto(out *T)
}

// newKind returns the row of the table for a strategy. list returns the resource's list type.
func newKind[T any, P pointer[T]](r strategy[P], list func(metav1.ListMeta, []T) runtime.Object) *kind {
	if r.fieldError == nil {
		r.fieldError = unknownField
	}
	set := r.rules
	if set.Name == nil {
		set.Name = rules.NameIsDNSSubdomain
	}
	if set.CopyInto == nil {
		set.CopyInto = func(in, out P) { in.DeepCopyInto(out) }
	}
	return &kind{
		id: r.resource, resource: r.resource, cache: cacheTask(r.resource), gvk: r.gvk, namespaced: r.namespaced,
		short: r.short, categories: r.categories,
		empty: func() Object { return P(new(T)) },
		shallow: func(obj Object) Object {
			c := *obj.(P)
			return P(&c)
		},
		copy: func(obj Object) Object {
			out := P(new(T))
			set.CopyInto(obj.(P), out)
			return out
		},
		draft: adaptDraft[T](set.Draft),
		list: func(meta metav1.ListMeta, objects []Object) runtime.Object {
			items := make([]T, len(objects))
			for i, obj := range objects {
				set.CopyInto(obj.(P), &items[i])
			}
			return list(meta, items)
		},
		share: func(meta metav1.ListMeta, objects []Object) runtime.Object {
			items := make([]T, len(objects))
			for i, obj := range objects {
				items[i] = *obj.(P)
			}
			return list(meta, items)
		},
		name: set.Name, defaults: adaptDefault(set.Default),
		copyStatus: adaptCopyStatus(r.copyStatus), statusUpdatesMetadata: r.statusUpdatesMetadata,
		prepareCreate: adaptPrepare(set.PrepareCreate), validateCreate: adaptValidate(set.ValidateCreate),
		prepareUpdate: adaptPrepare(set.PrepareUpdate), validateUpdate: adaptValidate(set.ValidateUpdate),
		prepareStatus: adaptPrepare(set.PrepareStatus), validateStatus: adaptValidate(set.ValidateStatus),
		warn:                     adaptWarn(set.Warn),
		allowUnconditionalUpdate: r.allowUnconditionalUpdate, allowCreateOnUpdate: r.allowCreateOnUpdate,
		grace: adaptGrace(r.grace), dependents: r.dependents, field: selectable(r.fields), fieldError: r.fieldError,
		deleteReturnsStatus: r.deleteReturnsStatus, deleteWarning: r.deleteWarning, actions: r.actions,
	}
}

func adaptDraft[T any, P pointer[T]](f func(in, out, old P, status bool)) func(obj, old Object, status bool) Object {
	if f == nil {
		return nil
	}
	return func(obj, old Object, status bool) Object {
		out := P(new(T))
		f(obj.(P), out, old.(P), status)
		return out
	}
}

func adaptDefault[P Object](f func(P)) func(Object) {
	if f == nil {
		return func(Object) {}
	}
	return func(obj Object) { f(obj.(P)) }
}

func adaptCopyStatus[P Object](f func(a, b P)) func(a, b Object) {
	if f == nil {
		return nil
	}
	return func(a, b Object) { f(a.(P), b.(P)) }
}

func adaptPrepare[P Object](f func(now metav1.Time, new, old P)) func(now metav1.Time, new, old Object) {
	if f == nil {
		return func(metav1.Time, Object, Object) {}
	}
	return func(now metav1.Time, new, old Object) {
		typed, _ := old.(P)
		f(now, new.(P), typed)
	}
}

func adaptValidate[P Object](f func(new, old P) field.ErrorList) func(new, old Object) field.ErrorList {
	if f == nil {
		return func(Object, Object) field.ErrorList { return nil }
	}
	return func(new, old Object) field.ErrorList {
		typed, _ := old.(P)
		return f(new.(P), typed)
	}
}

func adaptWarn[P Object](f func(new, old P) []string) func(new, old Object) []string {
	if f == nil {
		return func(Object, Object) []string { return nil }
	}
	return func(new, old Object) []string {
		typed, _ := old.(P)
		return f(new.(P), typed)
	}
}

func adaptGrace[P Object](f func(P, *int64) int64) func(Object, *int64) int64 {
	if f == nil {
		return nil
	}
	return func(obj Object, requested *int64) int64 { return f(obj.(P), requested) }
}

// selectable returns the accessor of the fields that field selectors may use. Its bool is false for
// other fields.
func selectable[P Object](own map[string]func(P) string) func(Object, string) (string, bool) {
	return func(obj Object, label string) (string, bool) {
		switch label {
		case "metadata.name":
			return obj.GetName(), true
		case "metadata.namespace":
			return obj.GetNamespace(), true
		}
		f, ok := own[label]
		if !ok {
			return "", false
		}
		return f(obj.(P)), true
	}
}

func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.gvk.Group, Resource: k.resource}
}

// statusOnly returns a shallow copy of an object that has only metadata and status.
func (k *kind) statusOnly(obj Object) Object {
	bare := k.empty()
	*metaOf(bare) = *metaOf(obj)
	k.copyStatus(bare, obj)
	return bare
}

// metaOf returns an object's metadata, not a copy.
func metaOf(obj Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// clean drops what only the server may set, and what the wire does not carry.
func clean(obj Object) {
	if _, custom := obj.(*CustomObject); !custom {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	cleanMeta(metaOf(obj))
}

func cleanMeta(m *metav1.ObjectMeta) {
	m.SetSelfLink("")
	if len(m.Labels) == 0 {
		m.Labels = nil
	}
	if len(m.Annotations) == 0 {
		m.Annotations = nil
	}
	if len(m.Finalizers) == 0 {
		m.Finalizers = nil
	}
	if len(m.OwnerReferences) == 0 {
		m.OwnerReferences = nil
	}
	rules.Truncate(&m.CreationTimestamp, m.DeletionTimestamp)
}
