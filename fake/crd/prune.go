package crd

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// decode prunes an object and fills in the defaults.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver unstructuredSchemaCoercer.apply,
// unstructuredDefaulter.
func (v *version) decode(obj *fake.CustomObject) error {
	v.prune(obj.Content)
	if err := objectmeta.Coerce(nil, obj.Content, v.schema, false, false); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", v.kind, v.name,
			v.kind, err))
	}
	defaulting.Default(obj.Content, v.schema)
	return nil
}

func (v *version) prune(content map[string]any) {
	pruning.Prune(content, v.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, v.schema)
}

// convert converts an object between versions by the strategy None: fields that the other version
// does not know are dropped. First it prunes and defaults the object by its own version, whose
// schema may have changed. It does not fill in defaults of the other version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver crdConversionRESTOptionsGetter.
func convert(obj *fake.CustomObject, from, to *version) {
	if from != nil {
		from.prune(obj.Content)
		defaulting.Default(obj.Content, from.schema)
	}
	if to != from {
		to.prune(obj.Content)
	}
}

// unknown returns the paths of the fields that pruning would remove, in order.
func (v *version) unknown(obj *fake.CustomObject) []string {
	content := runtime.DeepCopyJSON(obj.Content)
	paths := pruning.PruneWithOptions(content, v.schema, true,
		schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	_, embedded := objectmeta.CoerceWithOptions(nil, content, v.schema, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	return slices.Concat(paths, embedded)
}
