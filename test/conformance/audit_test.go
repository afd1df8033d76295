package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upstreampolicy "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/audit"
	"github.com/volsim/volsim/sim"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [Panic]
rules:
- {level: None, users: [kube]}
- {level: None, nonResourceURLs: ['/livez*', /readyz]}
- {level: Metadata, userGroups: ['system:nodes'], omitStages: [RequestReceived]}
- {level: Metadata, resources: [{group: '', resources: [secrets], resourceNames: [a]}, {group: '', resources: ['*/status', pods/log]}]}
- {level: None, resources: [{group: '', resources: [secrets]}, {group: '*', resources: [leases]}]}
- {level: None, verbs: [deletecollection], namespaces: [kube-system]}
- {level: Metadata}
`

// TestAuditEventsAgree makes the same requests to a server behind upstream's audit filters, and to one that
// writes the log itself, at level Metadata. What the handlers add to an event, and upstream's filters cannot
// know of this server, is left out: statuses, decisions, and the name in the object that was sent.
func TestAuditEventsAgree(t *testing.T) {
	const watch = "?watch=1&timeoutSeconds=1"
	var requests []*http.Request
	for _, line := range []string{
		"GET /", "GET /healthz", "GET /livez/ping", "GET /readyz", "GET /readyz/x", "GET /version", "GET /nothing", "GET /api", "GET /apis/apps", "GET /openapi/v2",
		"GET /api/v1/pods", "GET /api/v1/pods?limit=1&labelSelector=a%3Db", "GET /api/v1/pods" + watch, "GET /api/v1/watch/pods", "GET /api/v1/watch/namespaces/default/pods/a",
		"GET /api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Da", "GET /api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Da%2Fb",
		"GET /api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3Da", "GET /api/v1/namespaces/default/pods/a/log", "GET /api/v1/namespaces/default/pods/a/log?follow=1",
		"POST /api/v1/namespaces/default/pods/a/exec?command=x", "GET /api/v1/nodes/n/proxy/metrics", "GET /api/v1/namespaces/default/services/s/proxy",
		"GET /api/v1/namespaces/default", "GET /api/v1/namespaces/default/status", "PUT /api/v1/namespaces/default/finalize", "DELETE /api/v1/namespaces/x",
		"GET /api/v1/namespaces/default/secrets/a", "GET /api/v1/namespaces/default/secrets/b", "GET /api/v1/namespaces/default/secrets",
		"GET /apis/coordination.k8s.io/v1/leases", "DELETE /api/v1/namespaces/kube-system/configmaps", "DELETE /api/v1/namespaces/default/configmaps",
		"PATCH /api/v1/nodes/n/status", "PUT /api/v1/nodes/n", "HEAD /api/v1/nodes/n", "OPTIONS /api/v1/nodes", "GET /apis/example.com/v1/namespaces/a/things/b/c/d",
		"GET /api/v1/pods?watch=0", "GET /api/v1/pods?watch=true" + "&timeoutSeconds=1", "GET /api/v1/pods?timeout=1s&fieldSelector=%3D%3D",
	} {
		method, path, _ := strings.Cut(line, " ")
		requests = append(requests, httptest.NewRequest(method, path, nil))
	}
	users := []*user.DefaultInfo{
		{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}},
		{Name: "kube"},
		{Name: "system:node:n", Groups: []string{"system:nodes"}},
	}
	synctest.Test(t, func(t *testing.T) { // a watch ends at once
		for _, u := range users {
			for _, r := range requests {
				compareEvents(t, u, r)
			}
		}
	})
}

func compareEvents(t *testing.T, u *user.DefaultInfo, r *http.Request) {
	policy, err := upstreampolicy.LoadPolicyFromBytes([]byte(auditPolicy))
	if err != nil {
		t.Fatal(err)
	}
	var theirs, ours bytes.Buffer
	config := func() apiserver.HandlerConfig {
		return apiserver.HandlerConfig{
			Caller: func(*http.Request) sim.Caller { return &direct{} },
			Client: func(c *fake.Clientset) *fake.Clientset {
				extra := map[string]authenticationv1.ExtraValue{}
				for k, v := range u.Extra {
					extra[k] = v
				}
				return c.AsUser(authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: extra})
			},
		}
	}
	longRunning := serverfilters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	infos := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	inner := filters.WithAudit(apiserver.NewHandler(fake.NewServer(fake.Config{Now: time.Now}), config()),
		auditlog.NewBackend(&theirs, auditlog.FormatJson, auditv1.SchemeGroupVersion), upstreampolicy.NewPolicyRuleEvaluator(policy), longRunning)
	withUser := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(apirequest.WithUser(r.Context(), u)))
	})
	upstream := filters.WithAuditInit(filters.WithRequestInfo(withUser, infos))
	cfg := config()
	log, err := audit.New(audit.Config{Out: &ours, Policy: []byte(auditPolicy)})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Audit = log
	for _, handler := range []http.Handler{upstream, apiserver.NewHandler(fake.NewServer(fake.Config{Now: time.Now}), cfg)} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of a watch without a timeout
		sent := r.Clone(ctx)
		sent.Header.Set("Audit-ID", "id")
		sent.Header.Set("User-Agent", strings.Repeat("x", 1025))
		sent.Header.Set("X-Forwarded-For", "10.0.0.1, 10.0.0.2")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, sent)
		cancel()
		if got := answer.Header().Values("Audit-Id"); !slices.Equal(got, []string{"id"}) {
			t.Errorf("%s %s: Audit-Id %q", r.Method, r.RequestURI, got)
		}
	}
	if diff := cmp.Diff(eventsIn(t, theirs.Bytes()), eventsIn(t, ours.Bytes())); diff != "" {
		t.Errorf("%s: %s %s (-upstream +volsim):\n%s", u.Name, r.Method, r.RequestURI, diff)
	}
}

// eventsIn returns the events of a log, without what the handlers add.
func eventsIn(t *testing.T, log []byte) []auditv1.Event {
	var all []auditv1.Event
	for line := range bytes.Lines(log) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		e.Annotations, e.RequestReceivedTimestamp, e.StageTimestamp = nil, metav1.MicroTime{}, metav1.MicroTime{}
		if e.ResponseStatus != nil {
			e.ResponseStatus = &metav1.Status{Code: e.ResponseStatus.Code}
		}
		all = append(all, e)
	}
	return all
}
