package fake

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A CustomObject is an object of a custom resource.
type CustomObject struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// Content has all fields but apiVersion, kind and metadata, in JSON types: maps, slices,
	// strings, booleans, int64, float64.
	Content map[string]any
}

var _ Object = (*CustomObject)(nil)

// DeepCopyObject implements runtime.Object.
func (c *CustomObject) DeepCopyObject() runtime.Object {
	out := &CustomObject{TypeMeta: c.TypeMeta, Content: runtime.DeepCopyJSON(c.Content)}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// customHead has the fields of a CustomObject that are not in its content.
type customHead struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (c *CustomObject) MarshalJSON() ([]byte, error) {
	u, err := c.Unstructured()
	if err != nil {
		return nil, err
	}
	return json.Marshal(u.Object)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *CustomObject) UnmarshalJSON(data []byte) error {
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
	*c = CustomObject{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Content: content}
	return nil
}

// Unstructured returns the object as dynamic clients have it. The result shares the content.
func (c *CustomObject) Unstructured() (*unstructured.Unstructured, error) {
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

// A CustomKind defines a custom resource. Nil functions have nothing to do. The objects passed to
// the functions have the version in their apiVersion: that of the request.
type CustomKind struct {
	Group       string
	Versions    []string // served; the preferred one first
	Storage     string   // version of stored objects, which need not be served; "": the preferred one
	Resource    string   // plural
	Singular    string
	Kind        string
	ListKind    string
	ShortNames  []string
	Categories  []string
	Namespaced  bool
	Terminating bool // creations are rejected
	// Generation changes with the definition. Watches of the resource then end.
	Generation int64

	// Deprecated has the warnings for the use of deprecated versions.
	Deprecated map[string]string

	Status                bool     // has the subresource /status
	VersionsWithoutStatus []string // versions without /status
	StatusUpdatesMetadata bool     // a write of /status also updates the metadata

	// Scale returns where a version has the fields of its /scale. nil: no version has a /scale.
	Scale func(version string) *ScalePaths
	// Fields returns the fields that a field selector may use for a version, besides metadata.name
	// and metadata.namespace.
	Fields func(version string) map[string]func(obj *CustomObject) string

	// Default prunes a sent object and sets its defaults. A returned error is the response.
	Default func(obj *CustomObject) error
	// DefaultApplied sets the defaults of the result of a server-side apply, which is not pruned. nil:
	// as Default.
	DefaultApplied func(obj *CustomObject)
	// Decode prunes an object read from the store and sets its defaults, both by the object's own
	// version. It may modify obj.
	Decode func(obj *CustomObject)
	// Convert prunes an object that is converted to another version. It may modify obj, and sets no
	// defaults. nil: only apiVersion is changed.
	Convert func(obj *CustomObject, version string)
	// Webhook converts objects, which are in other versions, to a version, before Convert. It
	// replaces them in the slice. Name, namespace and UID stay; labels and annotations may change.
	// An error fails the request. It is called without locks, and repeatedly for the same object.
	// nil: contents stay.
	Webhook func(objects []*CustomObject, version string) error
	// Prepare sets what the server decides at a creation (old is nil) or an update.
	Prepare func(now metav1.Time, obj, old *CustomObject)
	// Finalize sets what the server decides when a deletion begins. It may modify obj.
	Finalize func(now metav1.Time, obj *CustomObject)
	// Validate returns what is wrong with an object. At creation old is nil.
	Validate func(obj, old *CustomObject) field.ErrorList
	// ValidateStatus returns what is wrong with an object at a write of /status. nil: as Validate.
	ValidateStatus func(obj, old *CustomObject) field.ErrorList
	// Warnings returns the warnings for the writer. At creation old is nil.
	Warnings func(obj, old *CustomObject) []string
	// UnknownFields returns the paths of the fields that Default would prune.
	UnknownFields func(obj *CustomObject) []string
	// Columns returns the additional printer columns of a version. nil: name and age.
	Columns func(version string) []Column
	// Schema returns the OpenAPI schema of a version, with x-kubernetes extensions. nil: any object
	// is valid. References have the names of upstream's OpenAPI document.
	Schema func(version string) *spec.Schema
	// Models returns the schemas that Schema refers to, by name, besides those of the API
	// machinery. nil: none.
	Models func() map[string]*spec.Schema
	// Types has the merge rules for server-side apply. nil: they are deduced from the object.
	Types managedfields.TypeConverter
	// GoTypes returns an empty object and an empty list of the resource's Go types, which have its
	// wire forms and the tags for strategic merge patches. nil: the resource has no Go types. Then it
	// supports neither protobuf nor strategic merge patches, as custom resources do not.
	GoTypes func() (obj, list runtime.Object)
}

// ScalePaths has the JSON paths of the fields that /scale shows, such as ".spec.replicas".
type ScalePaths struct {
	SpecReplicas   string
	StatusReplicas string
	LabelSelector  string // "": none
}

// A Column is a column of the table that kubectl prints for a resource.
type Column struct {
	metav1.TableColumnDefinition
	JSONPath string // of the value, such as ".spec.size"
}

// Install adds or replaces a custom resource. Existing objects stay, and are served by the new
// definition. A client that was created before still uses the old definition. Its watches end if
// Generation has changed.
func (s *Server) Install(c CustomKind) {
	id := tableID(c.Group, c.Resource)
	defer s.wakeMetadataWatchers()
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.catalog.Load()
	rows := newCustomKinds(&c, s.revision)
	t := current.table(id)
	if t == nil {
		t = s.newTable(rows[0])
		t.generation = c.Generation
	}
	t.define(c.Generation)
	s.catalog.Store(current.with(t, rows))
}

// Uninstall removes a custom resource. Its objects are removed, even with finalizers. Watches end
// with 410 Expired.
//
// Differs: if a definition's cleanup finalizer is removed manually, the real server keeps the
// objects. It serves them again under a definition of the same name.
func (s *Server) Uninstall(group, resource string) {
	id := tableID(group, resource)
	t := s.catalog.Load().table(id)
	if t == nil || t.kind.custom == nil {
		return
	}
	for !s.closeIfEmpty(t, id) { // concurrent writers may create more
		objects, _ := s.snapshot(t)
		objects.Scan(func(key string, obj Object) bool {
			s.commit(t, watch.Deleted, key, obj, t.kind.shallow(obj))
			return true
		})
	}
}

// closeIfEmpty removes a resource, and reports whether it had no objects. Later commits fail.
func (s *Server) closeIfEmpty(t *table, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.log.ended || t.objects.Len() > 0 {
		return t.log.ended
	}
	s.catalog.Store(s.catalog.Load().without(id))
	t.closeLog()
	return true
}

func sameContent(a, b *CustomObject, butStatus bool) bool {
	x, y := maps.Clone(a.Content), maps.Clone(b.Content)
	if butStatus {
		delete(x, "status")
		delete(y, "status")
	}
	return equality.Semantic.DeepEqual(x, y)
}

func copyContent(to, from *CustomObject, field string) {
	if v, ok := from.Content[field]; ok {
		to.Content[field] = v
	} else {
		delete(to.Content, field)
	}
}

// A CustomList is a list of objects of a custom resource.
type CustomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []*CustomObject `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *CustomList) DeepCopyObject() runtime.Object {
	out := &CustomList{TypeMeta: l.TypeMeta, Items: make([]*CustomObject, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i, c := range l.Items {
		out.Items[i] = c.DeepCopyObject().(*CustomObject)
	}
	return out
}

func customList(k *kind, meta metav1.ListMeta, objects []Object, deep bool) runtime.Object {
	out := &CustomList{ListMeta: meta, Items: make([]*CustomObject, len(objects))}
	out.APIVersion, out.Kind = k.gvk.GroupVersion().String(), k.custom.ListKind
	for i, obj := range objects {
		if deep {
			obj = obj.DeepCopyObject().(Object)
		}
		out.Items[i] = obj.(*CustomObject)
	}
	return out
}
