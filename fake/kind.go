package fake

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/fake/internal/rules"
)

// kind is a row of the table of resources, in the form the server works with; rule is the form it is written in.
// Functions are nil where a resource has nothing to say.
type kind struct {
	id         string // of its table, see tableID
	resource   string
	gvk        schema.GroupVersionKind
	namespaced bool
	short      []string
	categories []string
	custom     *CustomKind      // nil: built in
	invalid    schema.GroupKind // what an error says is invalid, if it is not the kind itself

	// A kind that is not stored itself but shows another one, as events.k8s.io shows the events of the core group and
	// a Scale shows a StatefulSet. show makes it of what is stored; take puts it back into a copy of what is stored,
	// which is nil at a creation.
	base       *kind
	fromStored func(stored Object) Object
	toStored   func(shown, stored Object) (Object, error)
	// The form in which an object of a custom resource is stored, which is that of one of its versions; show gives it the
	// form of this one. nil: as it is.
	toStorage func(Object) Object

	empty   func() Object
	shallow func(Object) Object // a copy that shares what it points to
	copy    func(Object) Object // a copy that shares nothing
	// A copy of what of an object can come in old's place: of all but the status, or, of a write of /status, of that and the
	// metadata. It may share with old what nobody changes. nil: see draft.
	draft func(obj, old Object, status bool) Object
	list  func(metav1.ListMeta, []Object) runtime.Object
	share func(metav1.ListMeta, []Object) runtime.Object // a list that shares what its items point to

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
	grace                    func(obj Object, asked *int64) int64
	dependents               dependents
	field                    func(obj Object, label string) (string, bool)
	fieldError               func(label string) string
	deleteReturnsStatus      bool
	scale                    *kind                              // shows it as a Scale; nil: there is no /scale
	scaledBy                 managedfields.ResourcePathMappings // of a Scale: where what it shows has how many replicas it wants
	actions                  map[string]action
}

// action is a subresource that one can only create: something done to an object.
type action struct {
	gvk schema.GroupVersionKind // of the body
	run func(s *Server, namespace, name string, body runtime.Object, dryRun bool) (acted, error)
}

// acted is what an action came to.
type acted struct {
	written
	answer runtime.Object
}

// rule is a row of the table of resources as it is written.
type rule[P Object] struct {
	resource   string
	gvk        schema.GroupVersionKind
	namespaced bool
	short      []string // names, as kubectl takes them
	categories []string // such as "all"

	rules rules.Set[P]

	copyStatus            func(to, from P) // nil: there is no /status
	statusUpdatesMetadata bool             // a write of /status keeps what it says in metadata

	allowUnconditionalUpdate bool // an update needs no resourceVersion
	allowCreateOnUpdate      bool // an update of what is not there creates it

	grace      func(obj P, asked *int64) int64 // seconds of grace at deletion. nil: none, ever
	dependents dependents                      // what becomes of them, if a deletion does not say it

	fields     map[string]func(P) string // what one can select by, besides metadata.name and metadata.namespace
	fieldError func(label string) string // what to say of a field one cannot select by. nil: see strangeField

	deleteReturnsStatus bool              // a deletion that removes it at once is answered with a Status, not with the object
	actions             map[string]action // by subresource
}

// pointer is a pointer to a type of the API.
type pointer[T any] interface {
	*T
	Object
	DeepCopyInto(out *T)
}

// newKind makes a row of the table. list makes the resource's list type.
func newKind[T any, P pointer[T]](r rule[P], list func(metav1.ListMeta, []T) runtime.Object) *kind {
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
		id: r.resource, resource: r.resource, gvk: r.gvk, namespaced: r.namespaced, short: r.short, categories: r.categories,
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
		draft: draft[T](set.Draft),
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
		name: set.Name, defaults: one(set.Default),
		copyStatus: two(r.copyStatus), statusUpdatesMetadata: r.statusUpdatesMetadata,
		prepareCreate: prepare(set.PrepareCreate), validateCreate: validate(set.ValidateCreate),
		prepareUpdate: prepare(set.PrepareUpdate), validateUpdate: validate(set.ValidateUpdate),
		prepareStatus: prepare(set.PrepareStatus), validateStatus: validate(set.ValidateStatus),
		warn:                     warn(set.Warn),
		allowUnconditionalUpdate: r.allowUnconditionalUpdate, allowCreateOnUpdate: r.allowCreateOnUpdate,
		grace: grace(r.grace), dependents: r.dependents, field: selectable(r.fields), fieldError: r.fieldError,
		deleteReturnsStatus: r.deleteReturnsStatus, actions: r.actions,
	}
}

func draft[T any, P pointer[T]](f func(in, out, old P, status bool)) func(obj, old Object, status bool) Object {
	if f == nil {
		return nil
	}
	return func(obj, old Object, status bool) Object {
		out := P(new(T))
		f(obj.(P), out, old.(P), status)
		return out
	}
}

func one[P Object](f func(P)) func(Object) {
	if f == nil {
		return func(Object) {}
	}
	return func(obj Object) { f(obj.(P)) }
}

func two[P Object](f func(a, b P)) func(a, b Object) {
	if f == nil {
		return nil
	}
	return func(a, b Object) { f(a.(P), b.(P)) }
}

func prepare[P Object](f func(now metav1.Time, new, old P)) func(now metav1.Time, new, old Object) {
	if f == nil {
		return func(metav1.Time, Object, Object) {}
	}
	return func(now metav1.Time, new, old Object) {
		was, _ := old.(P)
		f(now, new.(P), was)
	}
}

func validate[P Object](f func(new, old P) field.ErrorList) func(new, old Object) field.ErrorList {
	if f == nil {
		return func(Object, Object) field.ErrorList { return nil }
	}
	return func(new, old Object) field.ErrorList {
		was, _ := old.(P)
		return f(new.(P), was)
	}
}

func warn[P Object](f func(new, old P) []string) func(new, old Object) []string {
	if f == nil {
		return func(Object, Object) []string { return nil }
	}
	return func(new, old Object) []string {
		was, _ := old.(P)
		return f(new.(P), was)
	}
}

func grace[P Object](f func(P, *int64) int64) func(Object, *int64) int64 {
	if f == nil {
		return nil
	}
	return func(obj Object, asked *int64) int64 { return f(obj.(P), asked) }
}

// selectable returns a function that gives the value of a field one can select by, and whether it is one.
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

// statusOnly is an object of which nothing is left but metadata and status, which it shares.
func (k *kind) statusOnly(obj Object) Object {
	bare := k.empty()
	*metaOf(bare) = *metaOf(obj)
	k.copyStatus(bare, obj)
	return bare
}

// metaOf returns an object's metadata itself.
func metaOf(obj Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// clean takes out of an object what only the server may say, and what the wire would not carry.
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
