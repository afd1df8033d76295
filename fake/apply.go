package fake

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/volsim/volsim/fake/internal/apitypes"
)

// serverSideApply applies a configuration to an object; old is nil for a creation.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go applyPatcher.
func (p *patchRequest) serverSideApply(old Object) (Object, error) {
	config := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(p.data, &config.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	live := old
	if live == nil {
		live = p.r.New()
	}
	manager, err := p.r.fieldManager(p.sub)
	if err != nil {
		return nil, internalError(err.Error())
	}
	if err := checkApplyCost(config.Object, live); err != nil {
		return nil, err
	}
	form := p.r.forms().of(live)
	times := newManagedTimes(form.(metav1.Object))
	out, err := manager.Apply(form, config, p.opts.FieldManager, ptr.Deref(p.opts.Force, false))
	if err != nil {
		return nil, applyError(err)
	}
	obj, err := objectOf(out)
	if err != nil {
		return nil, internalError(err.Error())
	}
	times.restore(obj, p.r.c.server.timestamp())
	if uid := obj.GetUID(); uid != "" && old == nil {
		return nil, apierrors.NewConflict(p.r.kind.groupResource(), p.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	return obj, p.strictYAML()
}

// applyError returns the status of an error of the field manager.
func applyError(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return internalError(err.Error())
}

// strictYAML reports the duplicate fields of an apply configuration. Unknown fields are always an
// error.
func (p *patchRequest) strictYAML() error {
	if p.ignoresUnknownFields() {
		return nil
	}
	err := yaml.UnmarshalStrict(p.data, &map[string]any{})
	switch {
	case err == nil:
	case p.opts.FieldValidation == metav1.FieldValidationStrict:
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
	default:
		p.warnings = yamlWarnings(err.Error())
	}
	return nil
}

// yamlWarnings splits an error of the YAML decoder into single warnings.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/rest.go parseYAMLWarnings.
func yamlWarnings(msg string) []string {
	const prefix = "yaml: unmarshal errors:\n"
	rest, ok := strings.CutPrefix(msg, "error converting YAML to JSON: "+prefix)
	if !ok {
		if rest, ok = strings.CutPrefix(msg, prefix); !ok {
			return []string{msg}
		}
	}
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// scaleTypes has the merge rules of Scale, which client-go lacks.
var scaleTypes = sync.OnceValue(func() managedfields.TypeConverter {
	parser, err := typed.NewParser(scaleSchema)
	if err != nil {
		panic(err) // the schema is a constant
	}
	return managedfields.NewSchemeTypeConverter(scheme.Scheme, parser)
})

const scaleSchema = `types:
- name: io.k8s.api.autoscaling.v1.Scale
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: any}, default: {}}
    - {name: spec, type: {map: {fields: [{name: replicas, type: {scalar: numeric}}]}}, default: {}}
    - {name: status, type: {map: {fields: [{name: replicas, type: {scalar: numeric}, default: 0}, {name: selector, type: {scalar: string}}]}}, default: {}}
- name: any
  scalar: untyped
  list: {elementType: {namedType: atomic}, elementRelationship: atomic}
  map: {elementType: {namedType: any}, elementRelationship: separable}
- name: atomic
  scalar: untyped
  list: {elementType: {namedType: atomic}, elementRelationship: atomic}
  map: {elementType: {namedType: atomic}, elementRelationship: atomic}
`

// fieldManager returns the merger of the resource's objects, which keeps their managed fields.
func (r ResourceClient) fieldManager(through subresource) (*managedfields.FieldManager, error) {
	make := managedfields.NewDefaultFieldManager
	var types managedfields.TypeConverter
	switch c := r.kind.custom; {
	case r.kind.ofScale():
		types = scaleTypes()
	case c == nil:
		types = apitypes.MergeRules()
	case c.Types != nil:
		make, types = managedfields.NewDefaultCRDFieldManager, c.Types
	default:
		make, types = managedfields.NewDefaultCRDFieldManager, managedfields.NewDeducedTypeConverter()
	}
	f, gvk := r.forms(), r.GroupVersionKind()
	return make(types, f, f, f, gvk, gvk.GroupVersion(), string(through), r.resetFields(through))
}

// resetFields returns the fields that a manager does not come to own through a subresource, because
// the subresource does not write them.
//
// Upstream: the strategies' GetResetFields.
func (r ResourceClient) resetFields(through subresource) map[fieldpath.APIVersion]fieldpath.Filter {
	if r.kind.copyStatus == nil {
		return nil
	}
	version := fieldpath.APIVersion(r.GroupVersionKind().GroupVersion().String())
	if through == ephemeralSubresource {
		return map[fieldpath.APIVersion]fieldpath.Filter{version: fieldpath.NewIncludeMatcherFilter(
			fieldpath.MakePrefixMatcherOrDie("spec", "ephemeralContainers"))}
	}
	path := fieldpath.MakePathOrDie
	reset := fieldpath.NewSet(path("status"))
	if through == statusSubresource {
		reset = fieldpath.NewSet(path("spec"))
		switch {
		case !r.kind.statusUpdatesMetadata:
			reset.Insert(path("metadata"))
		case r.kind.id == "pods":
			reset.Insert(path("metadata", "deletionTimestamp"))
			reset.Insert(path("metadata", "ownerReferences"))
		case r.kind.id == "deployments":
			reset.Insert(path("metadata", "labels"))
		}
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{version: fieldpath.NewExcludeSetFilter(reset)}
}

// forms converts a resource's objects for a field manager. A built-in kind has one version.
type forms struct{ r ResourceClient }

func (r ResourceClient) forms() forms { return forms{r} }

// of returns an object with its apiVersion and kind, as a field manager needs it. The result shares
// only what is not changed.
func (f forms) of(obj Object) runtime.Object {
	out := f.r.versioned(obj)
	c, ok := out.(*CustomObject)
	if !ok {
		return out
	}
	u, err := c.DeepCopyObject().(*CustomObject).Unstructured()
	if err != nil {
		panic(err) // metadata always converts
	}
	return u
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (f forms) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := f.r.GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk})
	if !ok || !f.r.kind.has(to.Version) {
		return nil, runtime.NewNotRegisteredGVKErrForTarget(schemeName, gvk, target)
	}
	u, ok := in.(*unstructured.Unstructured)
	switch {
	case ok && f.r.kind.custom != nil:
		return f.convert(u, to)
	case ok:
		obj := f.r.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return nil, err
		}
		return obj, nil
	}
	return f.r.versioned(in.(Object)), nil
}

// convert returns a custom object in another version.
func (f forms) convert(u *unstructured.Unstructured, to schema.GroupVersionKind) (runtime.Object, error) {
	from := u.GroupVersionKind()
	if from == to || f.r.kind.custom.Convert == nil && f.r.kind.custom.Webhook == nil {
		out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		out.SetGroupVersionKind(to)
		return out, nil
	}
	obj, err := objectOf(u.DeepCopy())
	if err != nil {
		return nil, err
	}
	if obj, err = f.r.kind.convert(obj.(*CustomObject), to.Version); err != nil {
		return nil, err
	}
	return obj.(*CustomObject).Unstructured()
}

// has reports whether the kind has a version.
func (k *kind) has(version string) bool {
	if k.custom != nil {
		return slices.Contains(k.custom.Versions, version)
	}
	return k.gvk.Version == version
}

// Convert is not used.
func (forms) Convert(in, out, _ any) error {
	return fmt.Errorf("fake: no conversion of %T to %T", in, out)
}

// ConvertFieldLabel is not used.
func (forms) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default does nothing: the write pipeline sets defaults.
func (forms) Default(runtime.Object) {}

// New returns an empty object.
func (f forms) New(schema.GroupVersionKind) (runtime.Object, error) { return f.of(f.r.New()), nil }

// objectOf returns the result of a field manager as an object of the resource.
func objectOf(out runtime.Object) (Object, error) {
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		return out.(Object), nil
	}
	obj := &CustomObject{Content: u.Object}
	obj.SetGroupVersionKind(u.GroupVersionKind())
	meta, _ := u.Object["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(meta, &obj.ObjectMeta); err != nil {
		return nil, err
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(obj.Content, name)
	}
	return obj, nil
}
