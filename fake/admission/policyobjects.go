package admission

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
	"github.com/volsim/volsim/fake/internal/apitypes"
)

// seen is a request as upstream's dispatchers see it: its attributes, and what creates, converts and defaults its objects.
// It belongs to one request.
type seen struct {
	apitypes.Types
	server     *fake.Server
	request    *admit.Request
	attributes admission.Attributes
	custom     bool  // the objects are unstructured
	err        error // the first one that could not be returned
}

var (
	_ admission.ObjectInterfaces       = (*seen)(nil)
	_ runtime.ObjectConvertor          = (*seen)(nil)
	_ runtime.ObjectDefaulter          = (*seen)(nil)
	_ runtime.EquivalentResourceMapper = (*seen)(nil)
)

func newSeen(server *fake.Server, r *admit.Request) (*seen, error) {
	s := &seen{server: server, request: r}
	obj, err := s.own(r.Object)
	if err != nil {
		return nil, err
	}
	old, err := s.own(r.OldObject)
	if err != nil {
		return nil, err
	}
	s.attributes = admission.NewAttributesRecord(obj, old, r.Kind, r.Namespace, r.Name, r.Resource, r.Subresource,
		admission.Operation(r.Operation), r.Options, r.DryRun, userOf(&r.User))
	return s, nil
}

// own returns an object of the request with its kind, as a shallow copy.
func (s *seen) own(obj runtime.Object) (runtime.Object, error) {
	if obj == nil {
		return nil, nil
	}
	if _, ok := obj.(*fake.CustomObject); ok {
		s.custom = true
		out, err := exposed(obj)
		if err == nil {
			out.GetObjectKind().SetGroupVersionKind(s.request.Kind)
		}
		return out, err
	}
	return withKind(obj, s.request.Kind), nil
}

// withKind returns a shallow copy of an object with a kind.
func withKind(obj runtime.Object, gvk schema.GroupVersionKind) runtime.Object {
	v := reflect.New(reflect.TypeOf(obj).Elem())
	v.Elem().Set(reflect.ValueOf(obj).Elem())
	out := v.Interface().(runtime.Object)
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out
}

// GetObjectCreater implements admission.ObjectInterfaces.
func (s *seen) GetObjectCreater() runtime.ObjectCreater { return s }

// GetObjectTyper implements admission.ObjectInterfaces.
func (s *seen) GetObjectTyper() runtime.ObjectTyper { return s }

// GetObjectDefaulter implements admission.ObjectInterfaces.
func (s *seen) GetObjectDefaulter() runtime.ObjectDefaulter { return s }

// GetObjectConvertor implements admission.ObjectInterfaces.
func (s *seen) GetObjectConvertor() runtime.ObjectConvertor { return s }

// GetEquivalentResourceMapper implements admission.ObjectInterfaces.
func (s *seen) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return s }

// New implements runtime.ObjectCreater. The object has its kind, from which Convert knows the wanted version.
func (s *seen) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	var out runtime.Object = &unstructured.Unstructured{}
	if !s.custom {
		var err error
		if out, err = apitypes.New(gvk); err != nil {
			return nil, err
		}
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out, nil
}

// Convert implements runtime.ObjectConvertor, between the versions of the request. The version of out is its kind.
func (s *seen) Convert(in, out, _ any) error {
	to := out.(runtime.Object)
	got, err := s.inVersion(in.(runtime.Object), to.GetObjectKind().GroupVersionKind())
	if err != nil {
		return err
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(got).Elem())
	return nil
}

// ConvertToVersion implements runtime.ObjectConvertor. An unstructured object of a built-in kind becomes a typed one.
func (s *seen) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if u, ok := in.(*unstructured.Unstructured); ok && !s.custom {
		typed, err := apitypes.New(gvk)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return nil, err
		}
		in = typed
	}
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{s.request.Kind, gvk})
	if !ok {
		return nil, runtime.NewNotRegisteredGVKErrForTarget("admission", gvk, target)
	}
	return s.inVersion(in, to)
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (*seen) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// inVersion returns an object of the request in another version, as a shallow copy at least.
func (s *seen) inVersion(obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error) {
	from := obj.GetObjectKind().GroupVersionKind()
	if from == to {
		return withKind(obj, to), nil
	}
	stored, err := concealed(obj)
	if err != nil {
		return nil, err
	}
	for _, v := range s.request.Versions {
		convert := v.Convert
		switch {
		case from == s.request.Kind && v.Kind == to:
		case to == s.request.Kind && v.Kind == from:
			convert = v.Restore
		default:
			continue
		}
		if stored, err = convert(stored); err != nil {
			return nil, err
		}
		out, err := exposed(stored)
		if err != nil {
			return nil, err
		}
		return withKind(out, to), nil
	}
	return nil, fmt.Errorf("unable to convert to %v: unknown kind", to)
}

// concealed returns an object of upstream's code as package fake takes it: custom objects are not unstructured.
func concealed(obj runtime.Object) (runtime.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &fake.CustomObject{}
	return out, out.UnmarshalJSON(data)
}

// Default implements runtime.ObjectDefaulter: it replaces the object of the request, of which the server sets the
// defaults, and takes them over. Upstream defaults the result of each mutation.
func (s *seen) Default(obj runtime.Object) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	err := replace(s.request, obj, gvk)
	var own, out runtime.Object
	if err == nil {
		own, err = s.own(s.request.Object)
	}
	if err == nil {
		out, err = s.inVersion(own, gvk)
	}
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(out).Elem())
}

// EquivalentResourcesFor implements runtime.EquivalentResourceMapper.
func (s *seen) EquivalentResourcesFor(resource schema.GroupVersionResource, _ string) []schema.GroupVersionResource {
	out := []schema.GroupVersionResource{resource}
	for _, v := range s.request.Versions {
		out = append(out, v.Resource)
	}
	return out
}

// KindFor implements runtime.EquivalentResourceMapper.
func (s *seen) KindFor(resource schema.GroupVersionResource, _ string) schema.GroupVersionKind {
	if resource == s.request.Resource {
		return s.request.Kind
	}
	for _, v := range s.request.Versions {
		if v.Resource == resource {
			return v.Kind
		}
	}
	return schema.GroupVersionKind{}
}

// mergeTypes has the merge rules of the resources of a server, for patches that are configurations.
type mergeTypes struct{ server *fake.Server }

var _ patch.TypeConverterManager = mergeTypes{}

// GetTypeConverter implements patch.TypeConverterManager.
func (t mergeTypes) GetTypeConverter(gvk schema.GroupVersionKind) managedfields.TypeConverter {
	for _, r := range t.server.Resources() {
		if r.Custom == nil || r.Group != gvk.Group || r.Version != gvk.Version || r.Kind != gvk.Kind {
			continue
		}
		if r.Custom.Types == nil {
			return managedfields.NewDeducedTypeConverter()
		}
		return r.Custom.Types
	}
	if scheme.Scheme.Recognizes(gvk) {
		return apitypes.MergeRules()
	}
	return nil
}

// Run implements patch.TypeConverterManager.
func (mergeTypes) Run(context.Context) {}
