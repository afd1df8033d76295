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

// load prunes a stored object and fills in the defaults. The schema may have changed since the
// object was stored.
func (v *version) load(obj *fake.CustomObject) {
	if v == nil {
		return // the version was removed from the definition
	}
	v.prune(obj.Content)
	defaulting.Default(obj.Content, v.schema)
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
