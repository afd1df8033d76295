package apiserver

import (
	"bytes"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/apitypes"
)

// protobufPrefix is the prefix of every object in protobuf.
const protobufPrefix = "k8s\x00"

// codecs encode and decode objects in all media types.
type codecs struct {
	lenient, strict map[string]runtime.Serializer // by media type
	pretty          runtime.Serializer            // indented JSON
}

func newCodecs() *codecs {
	types := apitypes.Types{}
	of := func(o json.SerializerOptions) runtime.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, types, types, o)
	}
	proto := protobuf.NewSerializer(types, types)
	return &codecs{
		lenient: map[string]runtime.Serializer{
			mediaJSON: of(json.SerializerOptions{}), mediaYAML: of(json.SerializerOptions{Yaml: true}),
			mediaProtobuf: proto,
		},
		strict: map[string]runtime.Serializer{
			mediaJSON:     of(json.SerializerOptions{Strict: true}),
			mediaYAML:     of(json.SerializerOptions{Yaml: true, Strict: true}),
			mediaProtobuf: proto,
		},
		pretty: of(json.SerializerOptions{Pretty: true}),
	}
}

func (c *codecs) decoder(media string, strict bool) runtime.Serializer {
	if strict {
		return c.strict[media]
	}
	return c.lenient[media]
}

// encode encodes an object whose apiVersion and kind are set.
func (c *codecs) encode(f form, obj runtime.Object) ([]byte, error) {
	s := c.lenient[f.media]
	if f.pretty && f.media == mediaJSON {
		s = c.pretty
	}
	var b bytes.Buffer
	if err := s.Encode(obj, &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// withKind returns obj with apiVersion and kind set. It makes a shallow copy, since the object may
// be the store's.
func withKind(obj runtime.Object, gvk schema.GroupVersionKind) runtime.Object {
	if c, ok := obj.(*fake.CustomObject); ok {
		out := *c
		out.APIVersion, out.Kind = gvk.ToAPIVersionAndKind()
		return &out
	}
	v := reflect.New(reflect.TypeOf(obj).Elem())
	v.Elem().Set(reflect.ValueOf(obj).Elem())
	out := v.Interface().(runtime.Object)
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out
}

// kindOf returns the kind of an object of a built-in type.
func (c *codecs) kindOf(obj any) schema.GroupVersionKind {
	if _, ok := obj.(*metav1.Status); ok {
		return schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	}
	gvks, _, err := apitypes.Types{}.ObjectKinds(obj.(runtime.Object))
	if err != nil {
		panic("apiserver: type without a kind: " + err.Error())
	}
	return gvks[0]
}

// empty returns a new object of a built-in kind.
func (c *codecs) empty(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return apitypes.New(gvk)
}
