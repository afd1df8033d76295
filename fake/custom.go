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

// CustomObject is an object of a custom resource.
type CustomObject struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// Content is all but apiVersion, kind and metadata, as JSON has it: maps, slices, strings, booleans, int64, float64.
	Content map[string]any
}

var _ Object = (*CustomObject)(nil)

// DeepCopyObject returns a copy that shares nothing.
func (c *CustomObject) DeepCopyObject() runtime.Object {
	out := &CustomObject{TypeMeta: c.TypeMeta, Content: runtime.DeepCopyJSON(c.Content)}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// customHead is what a Custom has besides its content.
type customHead struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
}

// MarshalJSON gives the object as the wire has it.
func (c *CustomObject) MarshalJSON() ([]byte, error) {
	u, err := c.Unstructured()
	if err != nil {
		return nil, err
	}
	return json.Marshal(u.Object)
}

// UnmarshalJSON reads the object as the wire has it.
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

// Unstructured gives the object as dynamic clients have it. It shares the content.
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

// CustomKind is a custom resource as a server is to serve it. Functions are nil where it has nothing to say. Objects are
// of the version that their apiVersion says: that of the request.
type CustomKind struct {
	Group       string
	Versions    []string // served, the preferred one first
	Storage     string   // the version that objects are stored in, which need not be served; "": the preferred one
	Resource    string   // plural
	Singular    string
	Kind        string
	ListKind    string
	ShortNames  []string
	Categories  []string
	Namespaced  bool
	Terminating bool // nothing is created any more

	// Deprecated are the warnings for whoever uses a version that one should not.
	Deprecated map[string]string

	Status                bool     // there is a /status
	VersionsWithoutStatus []string // the versions that have none all the same
	StatusUpdatesMetadata bool     // a write of /status keeps what it says in metadata

	// Scale says where a version has what its /scale shows. nil: it has none.
	Scale func(version string) *ScalePaths
	// Fields are the fields one can select the objects of a version by, besides metadata.name and metadata.namespace.
	Fields func(version string) map[string]func(obj *CustomObject) string

	// Default prunes and fills in an object as it was sent. An error is the answer.
	Default func(obj *CustomObject) error
	// Convert makes of a stored object one of another version, or of the version it has as that is now. It may change
	// obj. nil: apiVersion is written.
	Convert func(obj *CustomObject, version string)
	// Prepare writes what the server itself writes at a creation (old is nil) or an update.
	Prepare func(now metav1.Time, obj, old *CustomObject)
	// Finalize writes what the server itself writes when a deletion begins. It may change obj.
	Finalize func(now metav1.Time, obj *CustomObject)
	// Validate says what is wrong with an object. At creation old is nil.
	Validate func(obj, old *CustomObject) field.ErrorList
	// ValidateStatus says what is wrong with an object whose status is written. nil: as Validate does.
	ValidateStatus func(obj, old *CustomObject) field.ErrorList
	// Warnings are for whoever writes an object. At creation old is nil.
	Warnings func(obj, old *CustomObject) []string
	// UnknownFields lists the paths of the fields that Default would prune.
	UnknownFields func(obj *CustomObject) []string
	// Columns are the additional printer columns of a version. nil: name and age.
	Columns func(version string) []Column
	// Schema is the OpenAPI schema of a version, with x-kubernetes extensions. nil: anything goes. What it refers to has
	// the name upstream's OpenAPI document has for it.
	Schema func(version string) *spec.Schema
	// Models are the schemas that Schema refers to, by name, besides those of the API machinery. nil: none.
	Models func() map[string]*spec.Schema
	// Types says how a version is merged by server-side apply. nil: as it comes.
	Types managedfields.TypeConverter
}

// ScalePaths are where an object of a custom resource has what its /scale shows, such as ".spec.replicas".
type ScalePaths struct {
	SpecReplicas   string
	StatusReplicas string
	LabelSelector  string // "": nowhere
}

// Column is a column of the table in which kubectl shows a resource.
type Column struct {
	metav1.TableColumnDefinition
	JSONPath string // of the value, such as ".spec.size"
}

// Install serves a custom resource from now on, or serves one that is there in another way. The objects that are there
// stay; they are shown as the resource now is. A client that was made before goes by what the resource was.
func (s *Server) Install(c CustomKind) {
	id := tableID(c.Group, c.Resource)
	defer s.wakeMetadataWatchers()
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.catalog.Load()
	rows := newCustomKinds(&c, s.revision)
	t := is.table(id)
	if t == nil {
		t = s.newTable(rows[0])
	}
	s.catalog.Store(is.with(t, rows))
}

// Uninstall ceases to serve a custom resource. What there is of it goes, finalizers or not. Whoever watches is told 410
// Expired.
//
// Differs: where a definition loses its cleanup finalizer by hand, the real server keeps its objects, and serves them again
// under a definition of the same name.
func (s *Server) Uninstall(group, resource string) {
	id := tableID(group, resource)
	t := s.catalog.Load().table(id)
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
	t.closeLog()
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

// CustomList is a list of objects of a custom resource.
type CustomList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []*CustomObject `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing.
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
