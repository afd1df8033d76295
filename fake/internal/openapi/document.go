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

// Document is what there is to say about the resources that a server serves. All methods may be called concurrently.
type Document struct {
	groups map[string][]fake.APIResource // by the path of their group version
	models func() *models
	v2     func() []byte
	v2pb   func() []byte
	v3     map[string]func() []byte // by path
	index  func() []byte
}

// New makes the documents of resources.
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

// groupPath is the path of a group version, without a slash in front.
func groupPath(r fake.APIResource) string {
	if r.Group == "" {
		return "api/" + r.Version
	}
	return "apis/" + r.Group + "/" + r.Version
}

// must returns what cannot fail: what is marshalled was made here.
func must[T any](v T, err error) T {
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return v
}

// The forms in which version 2 is handed out.
const (
	jsonType     = "application/json"
	protobufType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// v2Types are the media types one can ask for, in order of preference, and what the answer calls itself.
var v2Types = [][2]string{
	{jsonType, jsonType},
	{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf", protobufType},
	{protobufType, protobufType},
}

// V2 returns the document of all resources in the form that an Accept header asks for, and its content type. The latter is
// empty when there is no such form: the answer is then 406. Who says nothing gets JSON.
//
// Upstream: k8s.io/kube-openapi/pkg/handler RegisterOpenAPIVersionedService.
func (d *Document) V2(accept string) (body []byte, contentType string) {
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, t := range v2Types {
			asked, is := t[0], t[1]
			head, tail, _ := strings.Cut(asked, "/")
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

// V3Index returns the list of the documents of version 3, as JSON. Each URL has the hash of what is there, so that it
// may be kept for ever.
func (d *Document) V3Index() []byte { return d.index() }

// V3 returns the document of a group version, such as "api/v1" or "apis/storage.k8s.io/v1", as JSON, and whether there is
// one.
func (d *Document) V3(path string) ([]byte, bool) {
	build, ok := d.v3[strings.Trim(path, "/")]
	if !ok {
		return nil, false
	}
	return build(), true
}

// Hash is the hash of a document, as it stands in URLs and as real servers have it in ETags.
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

// swagger is the document of some group versions, in the form of version 2 but with the defaults and the schemas of version 3.
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

// version is that of the Kubernetes whose documents these are.
const version = "1.36"

// all are the paths of all group versions, in order.
func (d *Document) all() []string { return slices.Sorted(maps.Keys(d.groups)) }

func gvkOf(r fake.APIResource) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}
