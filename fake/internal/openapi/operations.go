package openapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// resource is a resource whose operations are documented.
type resource struct {
	*models
	fake.APIResource
	group string // as in the names of operations
	tag   string
}

// operations returns the paths and operations of a resource. base is the path of its group version.
func (m *models) operations(base string, r fake.APIResource) map[string]spec.PathItem {
	group := groupName(r.Group)
	of := resource{m, r, group + capital(r.Version), lower(group) + "_" + r.Version}
	scope, namespaced := base, ""
	if r.Namespaced {
		scope, namespaced = base+"/namespaces/{namespace}", "Namespaced"
	}
	collection := scope + "/" + r.Name
	item := collection + "/{name}"
	paths := map[string]spec.PathItem{collection: of.collection(namespaced)}
	if slices.Contains(r.Verbs, "get") {
		paths[item] = of.item(item, namespaced, r.APIResource)
	}
	if r.Namespaced && slices.Contains(r.Verbs, "list") {
		all := of.operation(action{verb: "list", name: "list" + of.group + r.Kind + "ForAllNamespaces", kind: gvkOf(r)})
		paths[base+"/"+r.Name] = spec.PathItem{PathItemProps: spec.PathItemProps{Get: all}}
	}
	for _, s := range r.Subresources {
		path := item + "/" + strings.TrimPrefix(s.Name, r.Name+"/")
		paths[path] = of.item(path, namespaced, s)
	}
	return paths
}

// discovery returns the operation that lists the resources of a group version.
func (m *models) discovery(r fake.APIResource) spec.PathItem {
	group := groupName(r.Group)
	op := &spec.Operation{OperationProps: spec.OperationProps{
		ID: "get" + group + capital(r.Version) + "APIResources", Description: "get available resources",
		Tags: []string{lower(group) + "_" + r.Version}, Schemes: []string{"https"},
		Consumes: []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"},
		Produces: []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"},
	}}
	op.Responses = responses(m.ref(reflect.TypeFor[metav1.APIResourceList]()), http.StatusOK)
	return spec.PathItem{PathItemProps: spec.PathItemProps{Get: op}}
}

// responses returns the documented responses: answer with the given codes, and 401.
func responses(answer *spec.Schema, codes ...int) *spec.Responses {
	all := map[int]spec.Response{http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}}}
	for _, code := range codes {
		all[code] = spec.Response{ResponseProps: spec.ResponseProps{Description: http.StatusText(code), Schema: answer}}
	}
	return &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: all}}
}

// action describes one operation.
type action struct {
	verb  string // the value of x-kubernetes-action
	about string
	name  string
	kind  schema.GroupVersionKind
}

func (r resource) collection(namespaced string) spec.PathItem {
	kind, name := gvkOf(r.APIResource), r.group+namespaced+r.Kind
	out := spec.PathItem{PathItemProps: spec.PathItemProps{
		Post: r.operation(action{
			verb: "post", about: "create" + article(r.Kind) + r.Kind, name: "create" + name, kind: kind,
		}),
		Parameters: pathParameters(r.Kind, namespaced != "", false),
	}}
	if slices.Contains(r.Verbs, "list") {
		out.Get = r.operation(action{verb: "list", name: "list" + name, kind: kind})
	}
	if slices.Contains(r.Verbs, "deletecollection") {
		out.Delete = r.operation(action{
			verb: "deletecollection", about: "delete collection of " + r.Kind,
			name: "delete" + r.group + "Collection" + namespaced + r.Kind, kind: kind,
		})
	}
	return out
}

// item returns the operations on an object, or on one of its subresources.
func (r resource) item(path, namespaced string, is metav1.APIResource) spec.PathItem {
	kind := schema.GroupVersionKind{Group: is.Group, Version: is.Version, Kind: is.Kind}
	name, what := r.group+namespaced+r.Kind, "the specified "+r.Kind
	if _, sub, ok := strings.Cut(is.Name, "/"); ok {
		name, what = name+capital(sub), sub+" of "+what
		if slices.Contains(is.Verbs, "create") {
			what = sub + " of" + article(r.Kind) + r.Kind
		}
	}
	out := spec.PathItem{PathItemProps: spec.PathItemProps{Parameters: pathParameters(is.Kind, namespaced != "", true)}}
	for _, verb := range is.Verbs {
		switch verb {
		case "get":
			out.Get = r.operation(action{verb: "get", about: "read " + what, name: "read" + name, kind: kind})
		case "update":
			out.Put = r.operation(action{verb: "put", about: "replace " + what, name: "replace" + name, kind: kind})
		case "patch":
			out.Patch = r.operation(action{
				verb: "patch", about: "partially update " + what, name: "patch" + name, kind: kind,
			})
		case "delete":
			out.Delete = r.operation(action{
				verb: "delete", about: "delete" + article(r.Kind) + r.Kind, name: "delete" + name, kind: kind,
			})
		case "create":
			if strings.Contains(is.Name, "/") {
				out.Post = r.operation(action{verb: "post", about: "create " + what, name: "create" + name, kind: kind})
			}
		}
	}
	return out
}

func (r resource) operation(a action) *spec.Operation {
	if a.verb == "list" {
		a.about = "list or watch objects of kind " + r.Kind
		if !r.hasGoTypes() {
			a.about = "list objects of kind " + r.Kind
		}
	}
	op := &spec.Operation{OperationProps: spec.OperationProps{
		ID: a.name, Description: a.about, Tags: []string{r.tag}, Schemes: []string{"https"}, Consumes: []string{"*/*"},
		Produces: []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"},
	}}
	if !r.hasGoTypes() {
		op.Produces, op.Consumes = op.Produces[:2], op.Produces[:2]
	}
	answer, codes := r.kind(a.kind), []int{http.StatusOK}
	switch a.verb {
	case "list":
		op.Parameters = queries[metav1.ListOptions]()
		if r.hasGoTypes() {
			op.Produces = append(op.Produces, "application/json;stream=watch",
				"application/vnd.kubernetes.protobuf;stream=watch")
		}
		answer = r.kind(a.kind.GroupVersion().WithKind(a.kind.Kind + "List"))
	case "deletecollection":
		op.Parameters = queries[metav1.ListOptions]()
		if r.hasGoTypes() {
			op.Parameters = append([]spec.Parameter{body(r.ref(reflect.TypeFor[metav1.DeleteOptions]()), false)},
				op.Parameters...)
		}
		answer = r.ref(reflect.TypeFor[metav1.Status]())
	case "delete":
		op.Parameters = append([]spec.Parameter{body(r.ref(reflect.TypeFor[metav1.DeleteOptions]()), false)},
			queries[metav1.DeleteOptions]()...)
		answer, codes = r.ref(reflect.TypeFor[metav1.Status]()), append(codes, http.StatusAccepted)
	case "post":
		op.Parameters = append([]spec.Parameter{body(answer, true)}, queries[metav1.CreateOptions]()...)
		codes = append(codes, http.StatusCreated, http.StatusAccepted)
	case "put":
		op.Parameters = append([]spec.Parameter{body(answer, true)}, queries[metav1.UpdateOptions]()...)
		codes = append(codes, http.StatusCreated)
	case "patch":
		op.Parameters = append([]spec.Parameter{body(r.ref(reflect.TypeFor[metav1.Patch]()), true)},
			queries[metav1.PatchOptions]()...)
		op.Consumes = r.patches()
		if r.hasGoTypes() {
			codes = append(codes, http.StatusCreated)
		}
	}
	op.Responses = responses(answer, codes...)
	op.AddExtension("x-kubernetes-action", a.verb)
	op.AddExtension(kindsExtension, kindExtension(a.kind))
	return op
}

// hasGoTypes reports whether the resource has Go types, and therefore protobuf.
func (r resource) hasGoTypes() bool { return r.Custom == nil || r.Custom.GoTypes != nil }

// patches returns the media types of patches that the resource supports.
func (r resource) patches() []string {
	all := []string{"application/json-patch+json", "application/merge-patch+json"}
	if r.hasGoTypes() {
		all = append(all, "application/strategic-merge-patch+json")
	}
	return append(all, "application/apply-patch+yaml")
}

// article returns the article between a verb and a noun.
//
// Upstream: k8s.io/apiserver/pkg/endpoints GetArticleForNoun.
func article(noun string) string {
	switch {
	case strings.HasSuffix(noun, "s") && !strings.HasSuffix(noun, "ss"):
		return " "
	case strings.ContainsAny(noun[:1], "AEIOUaeiou"):
		return " an "
	default:
		return " a "
	}
}

func body(of *spec.Schema, required bool) spec.Parameter {
	return spec.Parameter{ParamProps: spec.ParamProps{Name: "body", In: "body", Required: required, Schema: of}}
}

// queries returns the query parameters for the fields of options.
func queries[T any]() []spec.Parameter {
	var all []spec.Parameter
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		kind := ""
		switch deref(t.Field(i).Type).Kind() {
		case reflect.Bool:
			kind = "boolean"
		case reflect.Int64:
			kind = "integer"
		case reflect.String, reflect.Slice:
			kind = "string"
		}
		if name != "" && kind != "" {
			all = append(all, parameter(name, "query", kind, ""))
		}
	}
	slices.SortFunc(all, func(a, b spec.Parameter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func parameter(name, in, kind, about string) spec.Parameter {
	return spec.Parameter{
		ParamProps:        spec.ParamProps{Name: name, In: in, Required: in == "path", Description: about},
		SimpleSchema:      spec.SimpleSchema{Type: kind},
		CommonValidations: spec.CommonValidations{UniqueItems: true},
	}
}

// pathParameters returns the parameters in a path, and those of every request.
func pathParameters(kind string, namespaced, named bool) []spec.Parameter {
	var all []spec.Parameter
	if named {
		all = append(all, parameter("name", "path", "string", "name of the "+kind))
	}
	if namespaced {
		all = append(all, parameter("namespace", "path", "string",
			"object name and auth scope, such as for teams and projects"))
	}
	return append(all, parameter("pretty", "query", "string",
		"If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget)."))
}

// groupName returns a group as in the names of operations: Core, Apps, SnapshotStorage.
func groupName(group string) string {
	if group == "" {
		return "Core"
	}
	name := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(group, ".k8s.io"), ".") {
		name += capital(part)
	}
	return name
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }
