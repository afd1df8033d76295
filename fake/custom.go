package fake

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Custom is an object of a custom resource.
type Custom struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// Content is all but apiVersion, kind and metadata, as JSON has it: maps, slices, strings, booleans, int64, float64.
	Content map[string]any
}

var _ Object = (*Custom)(nil)

// DeepCopyObject returns a copy that shares nothing.
func (c *Custom) DeepCopyObject() runtime.Object {
	out := &Custom{TypeMeta: c.TypeMeta, Content: runtime.DeepCopyJSON(c.Content)}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// customHead is what a Custom has besides its content.
type customHead struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
}

// MarshalJSON gives the object as the wire has it.
func (c *Custom) MarshalJSON() ([]byte, error) {
	u, err := c.Unstructured()
	if err != nil {
		return nil, err
	}
	return json.Marshal(u.Object)
}

// UnmarshalJSON reads the object as the wire has it.
func (c *Custom) UnmarshalJSON(data []byte) error {
	var head customHead
	if err := utiljson.Unmarshal(data, &head); err != nil {
		return err
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return err
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(content, name)
	}
	*c = Custom{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Content: content}
	return nil
}

// Unstructured gives the object as dynamic clients have it. It shares the content.
func (c *Custom) Unstructured() (*unstructured.Unstructured, error) {
	meta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.ObjectMeta)
	if err != nil {
		return nil, err
	}
	if c.CreationTimestamp.IsZero() {
		delete(meta, "creationTimestamp")
	}
	out := maps.Clone(c.Content)
	if out == nil {
		out = map[string]any{}
	}
	out["apiVersion"], out["kind"], out["metadata"] = c.APIVersion, c.Kind, meta
	return &unstructured.Unstructured{Object: out}, nil
}

// CustomKind is a custom resource as a server is to serve it. Functions are nil where it has nothing to say.
type CustomKind struct {
	Group      string
	Versions   []string // served, the preferred one first
	Resource   string   // plural
	Singular   string
	Kind       string
	ListKind   string
	ShortNames []string
	Categories []string
	Namespaced bool
	Status     bool // there is a /status

	// Default prunes and fills in an object of the version that its apiVersion says.
	Default func(obj *Custom)
	// Prepare writes what the server itself writes at a creation (old is nil) or an update.
	Prepare func(obj, old *Custom)
	// Validate says what is wrong with an object of the version that its apiVersion says. At creation old is nil.
	Validate func(obj, old *Custom) field.ErrorList
	// Unknown lists the paths of the fields that Default would prune.
	Unknown func(obj *Custom) []string
	// Columns are the additional printer columns of a version.
	Columns func(version string) []Column
	// Schema is the OpenAPI schema of a version, with x-kubernetes extensions. nil: anything goes.
	Schema func(version string) *spec.Schema
	// Types says how a version is merged by server-side apply. nil: as it comes.
	Types managedfields.TypeConverter
}

// Column is a column of the table in which kubectl shows a resource.
type Column struct {
	metav1.TableColumnDefinition
	JSONPath string // of the value, such as ".spec.size"
}

// Install serves a custom resource from now on, or serves one that is there in another way. The objects that are there
// stay.
func (s *Server) Install(c CustomKind) {
	k := newCustomKind(&c)
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.catalog.Load()
	t := is.tables[k.id]
	if t == nil {
		t = s.newTable(k)
	}
	s.catalog.Store(is.with(t, k))
}

// Uninstall ceases to serve a custom resource. What there is of it goes, finalizers or not.
func (s *Server) Uninstall(group, resource string) {
	id := tableID(group, resource)
	t := s.catalog.Load().tables[id]
	if t == nil || t.kind.custom == nil {
		return
	}
	objects, _ := s.snapshot(t)
	objects.Scan(func(key string, obj Object) bool {
		s.commit(t, watch.Deleted, key, obj, t.kind.shallow(obj))
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog.Store(s.catalog.Load().without(id))
}

func newCustomKind(c *CustomKind) *kind {
	k := &kind{
		id: tableID(c.Group, c.Resource), resource: c.Resource, namespaced: c.Namespaced, custom: c,
		gvk:   schema.GroupVersionKind{Group: c.Group, Version: c.Versions[0], Kind: c.Kind},
		short: c.ShortNames, categories: c.Categories,
		empty: func() Object { return &Custom{} },
		shallow: func(obj Object) Object {
			out := *obj.(*Custom)
			out.Content = maps.Clone(out.Content)
			return &out
		},
		name:           validation.NameIsDNSSubdomain,
		defaults:       func(Object) {},
		prepareCreate:  func(metav1.Time, Object, Object) {},
		prepareUpdate:  func(metav1.Time, Object, Object) {},
		prepareStatus:  func(metav1.Time, Object, Object) {},
		validateCreate: func(Object, Object) field.ErrorList { return nil },
		validateUpdate: func(Object, Object) field.ErrorList { return nil },
		validateStatus: func(Object, Object) field.ErrorList { return nil },
		field:          selectable[*Custom](nil),
		strange:        unsupportedField,
		goesAsStatus:   true,
	}
	k.list = func(meta metav1.ListMeta, objects []Object) runtime.Object { return customList(c, meta, objects, true) }
	k.share = func(meta metav1.ListMeta, objects []Object) runtime.Object {
		return customList(c, meta, objects, false)
	}
	if c.Default != nil {
		k.defaults = func(obj Object) { c.Default(obj.(*Custom)) }
	}
	if c.Status {
		k.copyStatus = func(to, from Object) { copyContent(to.(*Custom), from.(*Custom), "status") }
	}
	k.prepareCreate = func(_ metav1.Time, obj, _ Object) { c.prepare(obj.(*Custom), nil) }
	k.prepareUpdate = func(_ metav1.Time, obj, old Object) { c.prepare(obj.(*Custom), old.(*Custom)) }
	if c.Validate != nil {
		k.validateCreate = func(obj, _ Object) field.ErrorList { return c.Validate(obj.(*Custom), nil) }
		update := func(obj, old Object) field.ErrorList { return c.Validate(obj.(*Custom), old.(*Custom)) }
		k.validateUpdate, k.validateStatus = update, update
	}
	return k
}

// prepare counts the generation and drops the status of what is created.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource strategy.
func (c *CustomKind) prepare(obj, old *Custom) {
	switch {
	case old == nil:
		obj.Generation = 1
		if c.Status {
			delete(obj.Content, "status")
		}
	case !sameContent(obj, old, c.Status):
		obj.Generation = old.Generation + 1
	}
	if c.Prepare != nil {
		c.Prepare(obj, old)
	}
}

func sameContent(a, b *Custom, butStatus bool) bool {
	x, y := maps.Clone(a.Content), maps.Clone(b.Content)
	if butStatus {
		delete(x, "status")
		delete(y, "status")
	}
	return equality.Semantic.DeepEqual(x, y)
}

func copyContent(to, from *Custom, field string) {
	if v, ok := from.Content[field]; ok {
		to.Content[field] = v
	} else {
		delete(to.Content, field)
	}
}

// CustomList is a list of objects of a custom resource.
type CustomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []*Custom `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing.
func (l *CustomList) DeepCopyObject() runtime.Object {
	out := &CustomList{TypeMeta: l.TypeMeta, Items: make([]*Custom, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i, c := range l.Items {
		out.Items[i] = c.DeepCopyObject().(*Custom)
	}
	return out
}

func customList(c *CustomKind, meta metav1.ListMeta, objects []Object, deep bool) runtime.Object {
	out := &CustomList{ListMeta: meta, Items: make([]*Custom, len(objects))}
	out.Kind = c.ListKind
	for i, obj := range objects {
		if deep {
			obj = obj.DeepCopyObject().(Object)
		}
		out.Items[i] = obj.(*Custom)
	}
	return out
}
