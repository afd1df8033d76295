package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// upstream500 lists the malformed requests that the real server also answers with 500.
var upstream500 = []string{
	"resourceVersion: Invalid value", "resourceVersion should not be set on objects to be created",
	"strconv.ParseUint", // a resourceVersion in an update
	"target.name: Required value", "target.kind: Unsupported value",
}

// answered makes any request, and fails unless the answer is valid for it.
func answered(t *testing.T, h http.Handler, req *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if w.Code < 500 {
		return
	}
	for _, known := range upstream500 {
		if strings.Contains(w.Body.String(), known) {
			return
		}
	}
	if w.Code == http.StatusGatewayTimeout && strings.Contains(w.Body.String(), "Too large resource version") {
		return
	}
	t.Errorf("%s %s: got %d %s", req.Method, req.URL, w.Code, w.Body)
}

// encoded returns an object in protobuf.
func encoded(f *testing.F, obj runtime.Object) []byte {
	f.Helper()
	gvks, _, err := clientscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		f.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvks[0])
	data, err := runtime.Encode(protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme), obj)
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzBodies sends any body with any media type to the paths that read a body.
func FuzzBodies(f *testing.F) {
	where := []string{
		"POST /api/v1/namespaces/default/configmaps", "POST /api/v1/namespaces/default/persistentvolumeclaims",
		"PUT /api/v1/namespaces/default", "PUT /api/v1/namespaces/default/status",
		"POST /api/v1/namespaces/default/pods/a/binding",
		"POST /api/v1/namespaces/default/pods/a/eviction", "POST /api/v1/namespaces/default/bindings",
		"DELETE /api/v1/namespaces/default/pods/a", "DELETE /api/v1/namespaces/default/configmaps", "POST " + things,
		"PUT " + things + "/a", "PATCH /api/v1/namespaces/default", "PATCH " + things + "/a",
		"PATCH /api/v1/namespaces/default/status",
		"POST /apis/apps/v1/namespaces/default/statefulsets",
		"PUT /apis/apps/v1/namespaces/default/statefulsets/a/scale",
	}
	medias := []string{
		"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
		"application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
	}
	for i, body := range []string{
		"", "{}", "[]", "null", "xx", `{"metadata":{"name":"a","labels":{"a":"b","a":"c"}},"nope":1}`,
		"metadata: {name: a}\nnope: [",
		`{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a"},"spec":{"size":1e400}}`,
		`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":-1,"preconditions":{"uid":"x"}}`,
		`[{"op":"replace","path":"/metadata/labels/x","value":null},{"op":"copy","from":"/metadata","path":"/spec"}]`,
		`{"metadata":{"finalizers":["a"],"$deleteFromPrimitiveList/finalizers":["b"],"resourceVersion":"x"}}`,
	} {
		f.Add(uint8(i), uint8(i%len(medias)), []byte(body))
		f.Add(uint8(11), uint8(i%len(medias)), []byte(body))
	}
	for i, obj := range []runtime.Object{
		newPod("a"), newClaim("a"), &policyv1.Eviction{}, &corev1.Binding{}, metav1.NewDeleteOptions(1),
	} {
		data := encoded(f, obj)
		f.Add(uint8(i), uint8(2), data)
		f.Add(uint8(7), uint8(2), data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, at, media uint8, body []byte) {
		method, target, _ := strings.Cut(where[int(at)%len(where)], " ")
		req := httptest.NewRequestWithContext(t.Context(), method, target+"?dryRun=All&fieldManager=f",
			strings.NewReader(string(body)))
		req.Header.Set("Content-Type", medias[int(media)%len(medias)])
		answered(t, newHandler(newThings()), req)
	})
}

// FuzzQueries sends any query and any Accept header to the paths that read them.
func FuzzQueries(f *testing.F) {
	targets := []string{
		"GET /api/v1/namespaces", "GET /api/v1/namespaces/default", "DELETE /api/v1/namespaces/default/configmaps",
		"DELETE /api/v1/namespaces/default/configmaps/a", "GET " + things, "GET /api/v1/pods", "GET /apis",
		"GET /api/v1/watch/namespaces",
	}
	for i, query := range []string{
		"", "limit=-1", "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NCwic3RhcnQiOiJkZWZhdWx0In0",
		"continue=%00",
		"labelSelector=a+in+(b,c),!d,e!=f", "labelSelector=((", "fieldSelector=metadata.name=a,metadata.namespace!=b",
		`fieldSelector=a\,=`,
		"resourceVersion=abc", "resourceVersion=-1&resourceVersionMatch=Exact",
		"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"timeoutSeconds=99999999999999999", "dryRun=All&dryRun=x", "propagationPolicy=Orphan&orphanDependents=true",
		"includeObject=Object",
	} {
		f.Add(uint8(i), query, "application/json;as=Table;v=v1;g=meta.k8s.io,*/*;q=0.1")
	}
	f.Add(uint8(0), "", `application/json;as=",;q=x`)
	f.Fuzz(func(t *testing.T, at uint8, query, accept string) {
		method, target, _ := strings.Cut(targets[int(at)%len(targets)], " ")
		req := httptest.NewRequestWithContext(t.Context(), method, target, nil)
		values, err := url.ParseQuery(query)
		if err != nil {
			return // no server receives such a request
		}
		values.Set("timeoutSeconds", "x") // no watch without an end
		if !values.Has("watch") && !strings.Contains(target, "watch") {
			values.Del("timeoutSeconds")
		}
		req.URL.RawQuery = values.Encode()
		req.Header.Set("Accept", accept)
		answered(t, newHandler(newThings()), req)
	})
}

// FuzzPaths sends any method to any path.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{
		"/", "//", "/api", "/api/v1", "/api/v1/", "/api/v1/watch", "/api/v1/watch/namespaces/default/pods/a",
		"/apis/apps/v1/namespaces/default",
		"/api/v1/namespaces/default/pods/a/log/b", "/apis//v1/x", "/api/v1/namespaces/default/status/x",
		things + "/a/status", "/openapi/v3/api/v1",
		"/api/v1/proxy/nodes/a", "/healthz/x/y", "/api/v1/namespaces/a%2Fb/pods",
	} {
		f.Add("GET", path)
		f.Add("POST", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		req.Method, req.URL.Path = method, path
		req.URL.RawQuery = "timeoutSeconds=x" // no watch without an end
		answered(t, newHandler(newThings()), req)
	})
}
