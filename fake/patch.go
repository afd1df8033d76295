package fake

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

const patchTypesMsg = "the body of the request was in an unknown format - accepted media types include: " +
	"application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"

// patch returns what a patch makes of an object. A resourceVersion in it is then a precondition, as in an update.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers patch.go.
func (k *kind) patch(old Object, pt types.PatchType, data []byte) (Object, error) {
	if obj, ok, err := k.patchParts(old, pt, data); ok {
		return obj, err
	}
	return k.patchWhole(old, pt, data)
}

// parts are the parts of an object that can be patched by themselves, and the fields that hold them.
var parts = map[string]string{"metadata": "ObjectMeta", "spec": "Spec", "status": "Status"}

// patchParts patches only the parts of an object that a merge patch names, which gives the same as patching the whole.
// It returns false where that cannot be: for JSON patches, and for patches that name anything else, remove a part, or
// hold directives.
func (k *kind) patchParts(old Object, pt types.PatchType, data []byte) (Object, bool, error) {
	var patch map[string]json.RawMessage
	if pt != types.MergePatchType && pt != types.StrategicMergePatchType || json.Unmarshal(data, &patch) != nil {
		return nil, false, nil
	}
	fields := reflect.ValueOf(old).Elem()
	for name, part := range patch {
		field := fields.FieldByName(parts[name])
		if !field.IsValid() || field.Kind() != reflect.Struct || len(part) == 0 || part[0] != '{' {
			return nil, false, nil
		}
	}
	obj := old.DeepCopyObject().(Object)
	fields = reflect.ValueOf(obj).Elem()
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if err := patchPart(fields.FieldByName(parts[name]), pt, patch[name]); err != nil {
			return nil, true, err
		}
	}
	return obj, true, nil
}

// patchPart patches one field of an object in place.
func patchPart(field reflect.Value, pt types.PatchType, data []byte) error {
	doc, err := json.Marshal(field.Addr().Interface())
	if err != nil {
		return internalError(err.Error())
	}
	if pt == types.MergePatchType {
		doc, err = mergePatch(doc, data)
	} else {
		doc, err = strategicPatch(doc, data, field.Addr().Interface())
	}
	if err != nil {
		return err
	}
	field.SetZero()
	if err := utiljson.Unmarshal(doc, field.Addr().Interface()); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func (k *kind) patchWhole(old Object, pt types.PatchType, data []byte) (Object, error) {
	doc, err := json.Marshal(old)
	if err != nil {
		return nil, internalError(err.Error())
	}
	switch pt {
	case types.JSONPatchType:
		doc, err = jsonPatch(doc, data)
	case types.MergePatchType:
		doc, err = mergePatch(doc, data)
	case types.StrategicMergePatchType:
		doc, err = strategicPatch(doc, data, old)
	default:
		err = apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
			patchTypesMsg, 0, false)
	}
	if err != nil {
		return nil, err
	}
	obj := k.empty()
	if err := utiljson.Unmarshal(doc, obj); err != nil { // as the wire: field names in their own case only
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

func jsonPatch(doc, data []byte) ([]byte, error) {
	p, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if doc, err = p.Apply(doc); err != nil {
		return nil, unprocessable(err)
	}
	return doc, nil
}

func mergePatch(doc, data []byte) ([]byte, error) {
	if !json.Valid(data) {
		return nil, apierrors.NewBadRequest(jsonpatch.ErrBadJSONPatch.Error())
	}
	doc, err := jsonpatch.MergePatch(doc, data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return doc, nil
}

func strategicPatch(doc, data []byte, like any) ([]byte, error) {
	doc, err := strategicpatch.StrategicMergePatch(doc, data, like)
	switch {
	case err == nil:
		return doc, nil
	case errors.Is(err, mergepatch.ErrNoListOfLists):
		return nil, unprocessable(err)
	default:
		return nil, apierrors.NewBadRequest(err.Error())
	}
}

// unprocessable is the answer to a patch that reads well but cannot be applied.
func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(),
		0, false)
}
