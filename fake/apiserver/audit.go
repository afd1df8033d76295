package apiserver

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/auditrecord"
)

// auditIDHeader has the ID of a request's events in the audit log. It is that of the request if it has one.
const auditIDHeader = "Audit-Id"

// setAuditID sets the header with the request's ID in the response, and returns the ID.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithAuditInit.
func setAuditID(w http.ResponseWriter, r *http.Request) string {
	id := cmp.Or(r.Header.Get(auditIDHeader), w.Header().Get(auditIDHeader))
	if id == "" {
		id = string(uuid.NewUUID())
	}
	w.Header().Set(auditIDHeader, id)
	return id
}

// withAuditID returns a handler whose responses have an ID, recorded or not.
func withAuditID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setAuditID(w, r)
		next.ServeHTTP(w, r)
	})
}

// audited returns a handler that records the requests of next.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters WithAudit.
func (h *handler) audited(next http.Handler) http.Handler {
	if h.audit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user := userOf(req, h.client(req))
		record, ok := h.begin(w, req, auditrecord.Request{User: &user, LongRunning: isLongRunning(req)})
		if !ok {
			return
		}
		defer func() {
			if value := recover(); value != nil {
				record.Panic(value)
				panic(value)
			}
			record.Complete()
		}()
		next.ServeHTTP(auditedWriter{w, record}, req.WithContext(auditrecord.With(req.Context(), record)))
	})
}

// begin opens the record of a request. If it cannot be written, the request is refused.
func (h *handler) begin(w http.ResponseWriter, req *http.Request, about auditrecord.Request) (auditrecord.Record, bool) {
	about.ID, about.Now = setAuditID(w, req), h.caller(req).Now
	record, err := h.audit.Begin(req, about)
	if err != nil {
		text := fmt.Sprintf("Internal Server Error: %q: %v", req.RequestURI, err)
		http.Error(w, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text), http.StatusInternalServerError)
		return nil, false
	}
	return record, true
}

// ServeUnauthorized answers a request that is not authenticated. [Listen] calls it.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters Unauthorized, WithFailedAuthenticationAudit.
func (h *handler) ServeUnauthorized(w http.ResponseWriter, req *http.Request) {
	if h.audit != nil {
		record, ok := h.begin(w, req, auditrecord.Request{Unauthenticated: true})
		if !ok {
			return
		}
		w, req = auditedWriter{w, record}, req.WithContext(auditrecord.With(req.Context(), record))
	}
	a := h.newRequest(req).errorAnswer(apierrors.NewUnauthorized("Unauthorized"))
	a.write(w)
}

// An auditedWriter records the code of a response.
type auditedWriter struct {
	http.ResponseWriter
	record auditrecord.Record
}

// WriteHeader records the code, and sends the header.
func (w auditedWriter) WriteHeader(code int) {
	w.record.Respond(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the body.
func (w auditedWriter) Write(data []byte) (int, error) {
	w.record.Respond(http.StatusOK)
	return w.ResponseWriter.Write(data)
}

// Hijack records that the protocol changes, and returns the connection.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/filters auditResponseWriter.Hijack.
func (w auditedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.record.Respond(http.StatusSwitchingProtocols)
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap returns the writer of the connection, for http.ResponseController.
func (w auditedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// userOf returns the authenticated user of a request, not the one that it impersonates.
func userOf(req *http.Request, client *fake.Clientset) authenticationv1.UserInfo {
	if user, ok := req.Context().Value(userKey{}).(authenticationv1.UserInfo); ok {
		return user
	}
	return client.User()
}

// record returns the audit record of the request.
func (r *request) record() auditrecord.Record { return auditrecord.From(r.Context()) }

// recordObject adds the object that was sent to the audit record, with its defaults.
func (v *resourceRequest) recordObject(client fake.ResourceClient, obj fake.Object) {
	if record := v.record(); record.Enabled() {
		record.RequestObject(withKind(client.Defaulted(obj), client.GroupVersionKind()), v.GroupVersionResource, v.sub)
	}
}

// recordAction is recordObject for the body of an action.
func (v *resourceRequest) recordAction(obj runtime.Object) {
	if record := v.record(); record.Enabled() {
		record.RequestObject(withKind(obj, v.h.codecs.kindOf(obj)), v.GroupVersionResource, v.sub)
	}
}

// recordDeleteOptions adds the options that were sent to the audit record.
func (v *resourceRequest) recordDeleteOptions(o metav1.DeleteOptions) {
	if o.Kind == "" {
		o.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	}
	v.record().RequestObject(&o, v.GroupVersionResource, v.sub)
}
