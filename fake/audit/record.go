package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/internal/auditrecord"
)

// errStore is the error of a request whose event cannot be written.
var errStore = errors.New("failed to store audit event")

// Annotations of events.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters/authorization.go.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	reasonAnnotation   = "authorization.k8s.io/reason"
)

// A record is the record of one request.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithAudit, WithFailedAuthenticationAudit.
type record struct {
	ctx         context.Context //nolint:containedctx // it is the library's handle of the event
	event       *audit.AuditContext
	level       auditinternal.Level
	longRunning bool
	refused     bool // the request was not authenticated
	responded   bool
}

var _ auditrecord.Record = (*record)(nil)

// Impersonate sets the impersonated user.
func (r *record) Impersonate(u *authenticationv1.UserInfo) {
	audit.LogImpersonatedUser(r.ctx, infoOf(u), "")
}

// Authorize adds the annotations of a decision.
func (r *record) Authorize(allowed bool, reason string) {
	decision := "forbid"
	if allowed {
		decision = "allow"
	}
	audit.AddAuditAnnotations(r.ctx, decisionAnnotation, decision, reasonAnnotation, reason)
}

// Enabled reports whether the request is recorded: it is.
func (r *record) Enabled() bool { return true }

// RequestObject sets the object that was sent. At level Metadata only its name is recorded.
func (r *record) RequestObject(obj runtime.Object, of schema.GroupVersionResource, subresource string) {
	gv := obj.GetObjectKind().GroupVersionKind().GroupVersion()
	audit.LogRequestObject(r.ctx, obj, gv, of, subresource, jsonSerializer{})
}

// RequestPatch sets the patch that was sent.
//
// Differs: a patch in YAML is recorded as JSON. Upstream loses the event, as YAML is not JSON.
func (r *record) RequestPatch(patch []byte) {
	if !json.Valid(patch) {
		converted, err := yaml.YAMLToJSON(patch)
		if err != nil {
			return
		}
		patch = converted
	}
	audit.LogRequestPatch(r.ctx, patch)
}

// ResponseObject sets the object of the response, or its status.
func (r *record) ResponseObject(obj runtime.Object) {
	gv := obj.GetObjectKind().GroupVersionKind().GroupVersion()
	audit.LogResponseObject(r.ctx, obj, gv, jsonSerializer{})
}

// Respond sets the code, and records the start of a long response.
func (r *record) Respond(code int) {
	if r.responded {
		return
	}
	r.responded = true
	r.event.SetEventResponseStatusCode(int32(code))
	if r.longRunning {
		r.event.ProcessEventStage(r.ctx, auditinternal.StageResponseStarted)
	}
}

// Complete records that the response was sent.
func (r *record) Complete() {
	if r.refused {
		return
	}
	if r.event.GetEventResponseStatus() == nil {
		r.event.SetEventResponseStatus(&metav1.Status{
			Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early",
		})
		if r.longRunning {
			r.event.ProcessEventStage(r.ctx, auditinternal.StageResponseStarted)
		}
	}
	r.event.ProcessEventStage(r.ctx, auditinternal.StageResponseComplete)
}

// Panic records a panic.
func (r *record) Panic(value any) {
	r.event.SetEventResponseStatus(&metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", value),
	})
	r.event.ProcessEventStage(r.ctx, auditinternal.StagePanic)
}

// infoOf returns a user in the form of the library.
func infoOf(u *authenticationv1.UserInfo) user.Info {
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra}
}
