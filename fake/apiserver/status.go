package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	pathMsg   = "the server could not find the requested resource"
	methodMsg = "the server does not allow this method on the requested resource"
)

// newStatusError returns an error with the given Status.
func newStatusError(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details,
	}}
}

func errPath() error {
	return newStatusError(http.StatusNotFound, metav1.StatusReasonNotFound, pathMsg, &metav1.StatusDetails{})
}

func errMethod() error {
	return newStatusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, methodMsg,
		&metav1.StatusDetails{})
}

func errBody(accepted ...string) error {
	return newStatusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted,
			", "), nil)
}

func errAccept(accepted ...string) error {
	return newStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(accepted, ", "), nil)
}

// statusOf returns the Status for an error.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters ErrorToAPIStatus.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{Message: err.Error(), Reason: metav1.StatusReasonUnknown}
	var known apierrors.APIStatus
	switch {
	case errors.As(err, &known):
		status = known.Status()
	case errors.Is(err, context.DeadlineExceeded):
		status = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0).ErrStatus
	}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
		if status.Status == metav1.StatusSuccess {
			status.Code = http.StatusOK
		}
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

// errorAnswer answers with an error, in a form that the client accepts if there is one.
func (r *request) errorAnswer(err error) answer {
	status := statusOf(err)
	code := int(status.Code)
	f, ok := r.form(nil)
	if !ok {
		f = form{media: mediaJSON, pretty: true}
	}
	r.record().ResponseObject(status)
	body, failed := r.h.codecs.encode(f, status)
	if failed != nil {
		panic("apiserver: encode status: " + failed.Error())
	}
	a := newAnswer(code, f.media, body)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		a.header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	if cut := r.Context().Err(); cut != nil && errors.Is(err, cut) {
		a.canceled = cut
	}
	return a
}

// warn adds warnings for the client.
func (r *request) warn(texts ...string) { r.warnings = append(r.warnings, texts...) }

// addWarnings adds each distinct warning to an answer.
func (r *request) addWarnings(a answer) answer {
	seen := map[string]bool{}
	for _, text := range r.warnings {
		if seen[text] {
			continue
		}
		seen[text] = true
		if value, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
			a.header.Add("Warning", value)
		}
	}
	return a
}
