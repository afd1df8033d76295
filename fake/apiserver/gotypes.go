package apiserver

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/volsim/volsim/fake"
)

// hasGoTypes reports whether a resource has Go types: it is built in, or its CustomKind has GoTypes.
// Such a resource supports protobuf and strategic merge patches.
func hasGoTypes(r fake.APIResource) bool { return r.Custom == nil || r.Custom.GoTypes != nil }

// jsonOfProtobuf converts a body of a custom resource with Go types from protobuf to JSON.
func jsonOfProtobuf(body []byte, custom *fake.CustomKind, want schema.GroupVersionKind) ([]byte, error) {
	empty, _ := custom.GoTypes()
	known := runtime.NewScheme()
	known.AddKnownTypeWithName(want, empty)
	obj, gvk, err := protobuf.NewSerializer(known, known).Decode(body, nil, nil)
	if err != nil {
		return nil, decodeError(err, gvk, want.Kind, body)
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(obj)
}

// full returns an object as it is encoded, with its apiVersion and kind.
func (v *resourceRequest) full(obj fake.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	return v.goType(withKind(obj, gvk))
}

// goType converts a custom object, or a list of them, to its Go type if protobuf was negotiated.
func (v *resourceRequest) goType(obj runtime.Object) (runtime.Object, error) {
	c := v.apiResource.Custom
	if c == nil || c.GoTypes == nil || v.form.media != mediaProtobuf {
		return obj, nil
	}
	object, list := c.GoTypes()
	switch obj.(type) {
	case *fake.CustomObject:
	case *fake.CustomList:
		object = list
	default:
		return obj, nil
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(data, object)
}
