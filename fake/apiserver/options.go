package apiserver

import (
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decodeQuery reads options from the query. It ignores unknown parameters.
func (r *request) decodeQuery(into runtime.Object) error {
	if len(r.query) == 0 {
		return nil
	}
	if err := metascheme.ParameterCodec.DecodeParameters(r.query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// timeoutOf returns the timeout that a request asks for, or 0.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters parseTimeout.
func timeoutOf(query url.Values) (time.Duration, error) {
	value := query.Get("timeout")
	if value == "" {
		return 0, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid timeout specified in the request URL - " + err.Error())
	}
	return timeout, nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (r *request) createOptions() (o metav1.CreateOptions, err error) {
	if err := r.decodeQuery(&o); err != nil {
		return o, err
	}
	if err := invalidOptions("CreateOptions", validation.ValidateCreateOptions(&o)); err != nil {
		return o, err
	}
	o.FieldManager = r.fieldManager(o.FieldManager)
	return o, nil
}

func (r *request) updateOptions() (o metav1.UpdateOptions, err error) {
	if err := r.decodeQuery(&o); err != nil {
		return o, err
	}
	if err := invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&o)); err != nil {
		return o, err
	}
	o.FieldManager = r.fieldManager(o.FieldManager)
	return o, nil
}

func (r *request) patchOptions(pt types.PatchType) (o metav1.PatchOptions, err error) {
	if err := r.decodeQuery(&o); err != nil {
		return o, err
	}
	if err := invalidOptions("PatchOptions", validation.ValidatePatchOptions(&o, pt)); err != nil {
		return o, err
	}
	o.FieldManager = r.fieldManager(o.FieldManager)
	return o, nil
}

// deleteOptions reads the options of a deletion from the body, or from the query if there is no
// body.
func (v *resourceRequest) deleteOptions() (o metav1.DeleteOptions, err error) {
	body, err := v.readBody()
	if err != nil {
		return o, err
	}
	if len(body) > 0 {
		media, err := v.bodyMedia()
		if err != nil {
			return o, err
		}
		if err := decodeDeleteOptions(media, body, &o); err != nil {
			return o, apierrors.NewBadRequest(err.Error())
		}
		v.recordDeleteOptions(o)
	} else if err := v.decodeQuery(&o); err != nil {
		return o, err
	}
	o.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	return o, invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(&o))
}

func (r *request) listOptions() (o metav1.ListOptions, err error) {
	if err := r.decodeQuery(&o); err != nil {
		return o, err
	}
	if err := checkSelector("label", o.LabelSelector); err != nil {
		return o, err
	}
	return o, checkSelector("field", o.FieldSelector)
}

func (r *request) getOptions() (o metav1.GetOptions, err error) { return o, r.decodeQuery(&o) }

func (r *request) tableOptions() (o metav1.TableOptions, err error) {
	if err := r.decodeQuery(&o); err != nil {
		return o, err
	}
	if errs := validation.ValidateTableOptions(&o); len(errs) > 0 {
		return o, apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs.ToAggregate().Error())
	}
	return o, nil
}

// patchType returns the type of the patch in the body if the resource supports it.
func (v *resourceRequest) patchType() (types.PatchType, error) {
	media, _, _ := strings.Cut(v.Header.Get("Content-Type"), ";")
	switch pt := types.PatchType(strings.TrimSpace(media)); pt {
	case types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType:
		return pt, nil
	case types.StrategicMergePatchType:
		if hasGoTypes(v.apiResource) {
			return pt, nil
		}
	}
	if !hasGoTypes(v.apiResource) {
		return "", errBody(string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType))
	}
	return "", newStatusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"415: Unsupported Media Type", &metav1.StatusDetails{})
}

// fieldManager returns the manager of the fields that the request writes: the named one, or the
// client's program by default.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers managerOrUserAgent.
func (r *request) fieldManager(name string) string {
	if name != "" {
		return name
	}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	var b strings.Builder
	for _, c := range agent {
		if !unicode.IsPrint(c) {
			continue
		}
		if b.Len()+utf8.RuneLen(c) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(c)
	}
	return b.String()
}
