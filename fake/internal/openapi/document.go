package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/munnerz/goautoneg"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/volsim/volsim/fake"
)

// Document holds the OpenAPI documents of a set of resources. All methods may be called
// concurrently.
type Document struct {
	groups map[string][]fake.APIResource // by the path of their group version
	models func() *models
	v2     func() []byte
	v2pb   func() []byte
	v3     map[string]func() []byte // by path
	index  func() []byte
}

// New returns the documents of resources.
func New(resources []fake.APIResource) *Document {
	d := &Document{groups: map[string][]fake.APIResource{}, v3: map[string]func() []byte{}}
	for _, r := range resources {
		path := groupPath(r)
		d.groups[path] = append(d.groups[path], r)
	}
	d.models = sync.OnceValue(func() *models { return newModels(resources) })
	for path := range d.groups {
		d.v3[path] = sync.OnceValue(func() []byte { return must(d.buildV3(path).MarshalJSON()) })
	}
	d.v2 = sync.OnceValue(func() []byte { return must(d.buildV2().MarshalJSON()) })
	d.v2pb = sync.OnceValue(func() []byte {
		return must(proto.MarshalOptions{Deterministic: true}.Marshal(must(openapi_v2.ParseDocument(d.v2()))))
	})
	d.index = sync.OnceValue(d.buildIndex)
	return d
}

// groupPath returns the path of a group version, without a leading slash.
func groupPath(r fake.APIResource) string {
	if r.Group == "" {
		return "api/" + r.Version
	}
	return "apis/" + r.Group + "/" + r.Version
}

// must returns v. An error panics: marshalling generated documents does not fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return v
}

// The encodings of version 2.
const (
	jsonType     = "application/json"
	protobufType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// v2Types are the accepted media types in order of preference, each with the content type of the
// answer.
var v2Types = [][2]string{
	{jsonType, jsonType},
	{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf", protobufType},
	{protobufType, protobufType},
}

// V2 returns the document of all resources in the encoding that an Accept header asks for, and its
// content type. Without a header it is JSON. The content type is empty if no encoding is
// acceptable; the answer is then 406.
//
// Upstream: k8s.io/kube-openapi/pkg/handler RegisterOpenAPIVersionedService.
func (d *Document) V2(accept string) (body []byte, contentType string) {
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, t := range v2Types {
			accepted, is := t[0], t[1]
			head, tail, _ := strings.Cut(accepted, "/")
			if clause.Type != "*" && clause.Type != head || clause.SubType != "*" && clause.SubType != tail {
				continue
			}
			if is == jsonType {
				return d.v2(), is
			}
			return d.v2pb(), is
		}
	}
	return nil, ""
}

// V3Index returns the index of the version 3 documents as JSON. Each URL contains the document's
// hash, so the document can be cached indefinitely.
func (d *Document) V3Index() []byte { return d.index() }

// V3 returns the document of a group version, such as "api/v1" or "apis/storage.k8s.io/v1", as
// JSON, and whether it exists.
func (d *Document) V3(path string) ([]byte, bool) {
	build, ok := d.v3[strings.Trim(path, "/")]
	if !ok {
		return nil, false
	}
	return build(), true
}

// Hash returns the hash of a document that is used in URLs and ETags.
func Hash(document []byte) string { return fmt.Sprintf("%X", sha512.Sum512(document)) }

func (d *Document) buildIndex() []byte {
	type entry struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for path, build := range d.v3 {
		paths[path] = entry{"/openapi/v3/" + path + "?hash=" + Hash(build())}
	}
	return must(json.Marshal(map[string]any{"paths": paths}))
}

// swagger returns the document of some group versions, in version 2 but with the defaults and
// schemas of version 3.
func (d *Document) swagger(m *models, paths ...string) *spec.Swagger {
	out := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0",
		Info:    &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: version}},
		Paths:   &spec.Paths{Paths: map[string]spec.PathItem{}},
		SecurityDefinitions: spec.SecurityDefinitions{"BearerToken": &spec.SecurityScheme{SecuritySchemeProps: spec.SecuritySchemeProps{
			Description: "Bearer Token authentication", Type: "apiKey", Name: "authorization", In: "header",
		}}},
		Security: []map[string][]string{{"BearerToken": {}}},
	}}
	for _, path := range paths {
		for i, r := range d.groups[path] {
			if i == 0 && r.Custom == nil {
				out.Paths.Paths["/"+path+"/"] = m.discovery(r)
			}
			maps.Copy(out.Paths.Paths, m.operations("/"+path, r))
		}
	}
	return out
}

// version is the documented version of Kubernetes.
const version = "1.36"

// all returns the paths of all group versions, sorted.
func (d *Document) all() []string { return slices.Sorted(maps.Keys(d.groups)) }

func gvkOf(r fake.APIResource) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}
