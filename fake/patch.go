package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// operationsMax is the limit of operations in a JSON patch.
const operationsMax = 10_000

// A patchRequest is a request to patch an object.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers patch.go.
type patchRequest struct {
	r    ResourceClient
	name string
	pt   types.PatchType
	data []byte
	opts metav1.PatchOptions
	sub  subresource

	warnings []string // of the last attempt
}

// check returns an error if the server does not support the patch type or the options.
func (p *patchRequest) check() error {
	switch p.pt {
	case types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType:
	case types.StrategicMergePatchType:
		if !p.r.kind.hasGoTypes() {
			return p.unsupported()
		}
	default:
		return p.unsupported()
	}
	return checkPatchOptions(&p.opts, p.pt)
}

func (p *patchRequest) unsupported() error {
	msg := "415: Unsupported Media Type"
	if !p.r.kind.hasGoTypes() {
		msg = "the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Message: msg,
	}}
}

// apply returns the patched object in its stored form. A resourceVersion in the patch is a
// precondition, as in an update.
func (p *patchRequest) apply(stored Object) (Object, error) {
	obj, err := p.applyTo(stored)
	if err != nil && p.r.isSecret() {
		err = withoutContents(err)
	}
	return obj, err
}

func (p *patchRequest) applyTo(stored Object) (Object, error) {
	p.warnings = nil
	old, err := p.r.fromStoredForWrite(stored)
	if err != nil {
		return nil, err
	}
	var obj Object
	if p.pt == types.ApplyYAMLPatchType {
		obj, err = p.serverSideApply(old)
	} else if obj, err = p.patch(old); err == nil {
		p.r.track(obj, old, p.sub, p.opts.FieldManager)
	}
	if err != nil {
		return nil, err
	}
	if err := p.r.checkName(obj, p.name); err != nil {
		return nil, err
	}
	p.warnings = append(p.warnings, dedupOwners(metaOf(obj), duplicateOwnersLateMsg)...)
	if c, ok := obj.(*CustomObject); ok && p.pt == types.ApplyYAMLPatchType {
		c.APIVersion, c.Kind = p.r.GroupVersionKind().ToAPIVersionAndKind()
		return c, p.r.kind.defaultApplied(c)
	}
	return p.r.toStored(obj, stored)
}

// checkName returns an error unless an object has the name and the namespace of its request.
func (r ResourceClient) checkName(obj Object, name string) error {
	if err := inNamespace(r.kind, metaOf(obj), r.namespace); err != nil {
		return err
	}
	switch got := obj.GetName(); got {
	case name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", got, name))
	}
}

// patch applies a patch other than server-side apply.
func (p *patchRequest) patch(old Object) (Object, error) {
	if obj, ok := p.patchInPlace(old); ok {
		return obj, nil
	}
	if err := p.checkStrategicCost(old); err != nil {
		return nil, err
	}
	for _, patch := range []func(Object) (Object, bool){p.patchParts, p.patchFinalizers} {
		if obj, ok := patch(old); ok {
			return obj, nil
		}
	}
	return p.patchWhole(old)
}

func (p *patchRequest) patchWhole(old Object) (Object, error) {
	if p.pt == types.StrategicMergePatchType {
		return p.strategicPatch(old)
	}
	doc, err := json.Marshal(p.r.versioned(old))
	if err != nil {
		return nil, internalError(err.Error())
	}
	var strict []error
	if p.pt == types.JSONPatchType {
		doc, strict, err = p.jsonPatch(doc)
	} else {
		doc, strict, err = p.mergePatch(doc)
	}
	if err != nil {
		return nil, err
	}
	obj, more, err := p.r.decode(doc)
	if err != nil {
		return nil, err
	}
	if err := p.reportStrictErrors(append(strict, more...), string(doc)); err != nil {
		return nil, err
	}
	return obj, nil
}

// ignoresUnknownFields reports whether unknown and duplicate fields are ignored.
func (p *patchRequest) ignoresUnknownFields() bool {
	return p.opts.FieldValidation == metav1.FieldValidationIgnore
}

// reportStrictErrors returns an error or adds warnings about unknown and duplicate fields.
func (p *patchRequest) reportStrictErrors(strict []error, value string) error {
	switch {
	case len(strict) == 0 || p.ignoresUnknownFields():
		return nil
	case p.opts.FieldValidation == metav1.FieldValidationStrict:
		return invalidPatch(value, runtime.NewStrictDecodingError(strict).Error())
	}
	for _, err := range strict {
		p.warnings = append(p.warnings, err.Error())
	}
	return nil
}

// invalidPatch returns the error about a patch whose result is not a valid object.
func invalidPatch(value, detail string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "",
		field.ErrorList{field.Invalid(field.NewPath("patch"), value, detail)})
}

// unprocessable returns the error about a valid patch that cannot be applied.
func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
		err.Error(),
		0, false)
}

// jsonPatchOp is an operation of a JSON patch. Decoding to it finds unknown fields.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// jsonPatch applies a JSON patch, and returns errors about its unknown fields.
func (p *patchRequest) jsonPatch(doc []byte) ([]byte, []error, error) {
	var strict []error
	if !p.ignoresUnknownFields() {
		var ops []jsonPatchOp
		var err error
		if strict, err = kjson.UnmarshalStrict(p.data, &ops); err != nil {
			return nil, nil, undecodable(err, "fake.", "handlers.")
		}
		for i, err := range strict {
			strict[i] = fmt.Errorf("json patch %w", err)
		}
	}
	ops, err := jsonpatch.DecodePatch(p.data)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > operationsMax {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", operationsMax, len(ops)))
	}
	if err := checkValues(ops); err != nil {
		return nil, nil, unprocessable(err)
	}
	if err := checkJSONPatchCost(doc, p.data, ops); err != nil {
		return nil, nil, err
	}
	if doc, err = ops.Apply(doc); err != nil {
		return nil, nil, unprocessable(err)
	}
	return doc, strict, nil
}

// checkValues returns an error if an operation on the whole document has no value.
//
// Differs: the real server panics and closes the connection.
func checkValues(ops jsonpatch.Patch) error {
	for _, op := range ops {
		path, err := op.Path()
		if kind := op.Kind(); err == nil && path == "" && op["value"] == nil && (kind == "replace" || kind == "test") {
			return fmt.Errorf("%s operation on the whole document has no value", kind)
		}
	}
	return nil
}

// undecodable returns the error about a malformed patch. Go type names in it are replaced by
// upstream's.
func undecodable(err error, ours, theirs string) error {
	return apierrors.NewBadRequest("error decoding patch: " + strings.Replace(err.Error(), ours, theirs, 1))
}

// mergePatch applies a merge patch, and returns errors about its duplicate fields.
func (p *patchRequest) mergePatch(doc []byte) ([]byte, []error, error) {
	var strict []error
	if !p.ignoresUnknownFields() {
		var patch map[string]any
		var err error
		if strict, err = kjson.UnmarshalStrict(p.data, &patch); err != nil {
			return nil, nil, undecodable(err, "", "")
		}
	} else if !json.Valid(p.data) {
		return nil, nil, apierrors.NewBadRequest(jsonpatch.ErrBadJSONPatch.Error())
	}
	if err := checkMergeCost(doc, p.data); err != nil {
		return nil, nil, err
	}
	doc, err := jsonpatch.MergePatch(doc, p.data)
	switch {
	case errors.Is(err, jsonpatch.ErrBadJSONPatch):
		return nil, nil, apierrors.NewBadRequest(err.Error())
	case err != nil:
		return nil, nil, internalError(err.Error())
	}
	return doc, strict, nil
}

// strategicPatch applies a strategic merge patch.
func (p *patchRequest) strategicPatch(old Object) (Object, error) {
	doc, err := p.r.document(old)
	if err != nil {
		return nil, internalError(err.Error())
	}
	patch := map[string]any{}
	var strict []error
	if p.ignoresUnknownFields() {
		err = kjson.UnmarshalCaseSensitivePreserveInts(p.data, &patch)
	} else {
		strict, err = kjson.UnmarshalStrict(p.data, &patch)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj := p.r.newGoType()
	if doc, err = mergeStrategically(doc, patch, obj); err != nil {
		return nil, strategicError(err)
	}
	value := fmt.Sprintf("%+v", patch)
	if err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(doc, obj,
		!p.ignoresUnknownFields()); err != nil {
		more, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			return nil, invalidPatch(value, err.Error())
		}
		strict = append(strict, more.Errors()...)
	}
	if err := p.reportStrictErrors(strict, value); err != nil {
		return nil, err
	}
	return p.r.fromGoType(obj)
}

// errMergePanic is matched by the error about a strategic merge patch whose merge panicked.
var errMergePanic = errors.New("strategic merge patch cannot be merged")

// mergeStrategically merges a strategic merge patch into a document of the type of like. The merge
// panics if the patch orders a list of maps without a merge key, or if a merge key is a map. Such a
// panic is returned as an error.
//
// Differs: the real server panics and closes the connection.
func mergeStrategically(doc, patch map[string]any, like any) (merged map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			merged, err = nil, fmt.Errorf("%w: %v", errMergePanic, r)
		}
	}()
	return strategicpatch.StrategicMergeMapPatch(doc, patch, like)
}

// strategicError returns the error about a strategic merge patch that cannot be applied.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go interpretStrategicMergePatchError.
func strategicError(err error) error {
	for _, bad := range []error{
		mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat,
		errMergePanic,
	} {
		if errors.Is(err, bad) {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if errors.Is(err, mergepatch.ErrNoListOfLists) || errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys) {
		return unprocessable(err)
	}
	return internalError(err.Error())
}
