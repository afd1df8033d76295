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

// decode prunes what was sent and fills in the defaults.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver unstructuredSchemaCoercer.apply, unstructuredDefaulter.
func (v *version) decode(obj *fake.CustomObject) error {
	v.prune(obj.Content)
	if err := objectmeta.Coerce(nil, obj.Content, v.schema, false, false); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", v.kind, v.name, v.kind, err))
	}
	defaulting.Default(obj.Content, v.schema)
	return nil
}

func (v *version) prune(content map[string]any) {
	pruning.Prune(content, v.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, v.schema)
}

// convert makes of an object of one version one of another, as no conversion does it: what the other does not know goes.
// Before, it becomes what its own version makes of it now. Defaults of the other version are not filled in.
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

// unknown lists the paths of what pruning would take away, in order.
func (v *version) unknown(obj *fake.CustomObject) []string {
	content := runtime.DeepCopyJSON(obj.Content)
	paths := pruning.PruneWithOptions(content, v.schema, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	_, embedded := objectmeta.CoerceWithOptions(nil, content, v.schema, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	return slices.Concat(paths, embedded)
}
