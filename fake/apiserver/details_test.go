package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// result returns the code of an answer and, of an error, its reason and message.
func (r reply) result(t *testing.T) string {
	t.Helper()
	if r.code < http.StatusBadRequest {
		return itoa(r.code)
	}
	s := r.status(t)
	return fmt.Sprint(r.code, " ", s.Reason, " ", s.Message)
}

// TestFormsOfActions asks for tables and metadata of reviews and actions, which have no tables.
func TestFormsOfActions(t *testing.T) {
	const media = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	const review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	const reviewBody = `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`
	const pod = "/api/v1/namespaces/default/pods/a"
	const eviction = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}`
	const binding = `{"metadata":{"name":"a"},"target":{"name":"n"}}`
	const account = "/api/v1/namespaces/default/serviceaccounts/default"
	for _, tc := range []struct{ name, target, body, as, want, part string }{
		{"review", review, reviewBody, "Table", "406 NotAcceptable " + media, ""},
		{"review", review, reviewBody, "PartialObjectMetadata", "201", `"kind":"PartialObjectMetadata"`},
		{
			"review", review, reviewBody, "PartialObjectMetadataList", "406 NotAcceptable you requested PartialObjectMetadataList, " +
				"but the requested object is not a list (*authorization.SelfSubjectAccessReview)", "",
		},
		{"review", review, reviewBody, "", "201", `"kind":"SelfSubjectAccessReview"`},
		{"eviction", pod + "/eviction", eviction, "Table", "406 NotAcceptable " + media, ""},
		{"eviction", pod + "/eviction", eviction, "PartialObjectMetadata", "201", `"kind":"Status"`},
		{"binding", pod + "/binding", binding, "Table", "406 NotAcceptable " + media, ""},
		{"bindings", "/api/v1/namespaces/default/bindings", binding, "Table", "406 NotAcceptable " + media, ""},
		{"token", account + "/token", `{}`, "Table", "406 NotAcceptable " + media, ""},
		{"token", account + "/token", `{}`, "PartialObjectMetadata", "201", `"kind":"PartialObjectMetadata"`},
		{"pods", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "Table", "201", `"kind":"Table"`},
	} {
		t.Run(tc.name+" as "+tc.as, func(t *testing.T) {
			s := newServer()
			if err := s.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}); err != nil {
				t.Fatal(err)
			}
			accept := "application/json"
			if tc.as != "" {
				accept += ";as=" + tc.as + ";v=v1;g=meta.k8s.io"
			}
			got := ask(t.Context(), newHandler(s), http.MethodPost, tc.target, tc.body, "Accept", accept)
			if got.result(t) != tc.want || !strings.Contains(got.body, tc.part) {
				t.Errorf("got %s %s; want %s %s", got.result(t), got.body, tc.want, tc.part)
			}
		})
	}
}

// TestOldTables checks that the metadata in a table has the table's version.
func TestOldTables(t *testing.T) {
	h := newHandler(newServer())
	for _, version := range []string{"v1", "v1beta1"} {
		for _, path := range []string{"/api/v1/namespaces", "/api/v1/namespaces/default", "/api/v1/namespaces?watch=1&resourceVersion=0"} {
			got := askEvents(t, h, 1, path, "application/json;as=Table;g=meta.k8s.io;v="+version)
			want := `"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/` + version + `"`
			if got.code != http.StatusOK || !strings.Contains(got.body, want) {
				t.Errorf("%s: got %d %s; want %s", path, got.code, got.body, want)
			}
		}
	}
}

// TestResourceVersionOfACreation checks that validation comes first and that a dry run accepts one.
func TestResourceVersionOfACreation(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	const refused = "500  resourceVersion should not be set on objects to be created"
	h := newHandler(newServer())
	for _, tc := range []struct{ target, body, want string }{
		{maps, `{"metadata":{"name":"a","resourceVersion":"5"}}`, refused},
		{maps + "?dryRun=All", `{"metadata":{"name":"a","resourceVersion":"5"}}`, "201"},
		{
			maps, `{"metadata":{"name":"A","resourceVersion":"5"}}`, `422 Invalid ConfigMap "A" is invalid: metadata.name: Invalid value: "A": ` +
				"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an " +
				"alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
		},
		{maps, `{"metadata":{"name":"kube-root-ca.crt","resourceVersion":"5"}}`, refused},
		{maps, `{"metadata":{"name":"b","resourceVersion":"0"}}`, "201"},
		{maps, `{"metadata":{"name":"c","resourceVersion":"x"}}`, "201"},
	} {
		if got := ask(t.Context(), h, http.MethodPost, tc.target, tc.body).result(t); got != tc.want {
			t.Errorf("%s: got %s; want %s", tc.body, got, tc.want)
		}
	}
}

// TestLargeObjects creates and changes objects around the limits of etcd.
func TestLargeObjects(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	const tooLarge = "500  etcdserver: request is too large"
	const tooLong = "500  rpc error: code = ResourceExhausted desc = trying to send message larger than max ("
	body := func(name string, size int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":%q}}`, name, strings.Repeat("x", size))
	}
	custom := func(name string, size int) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q},"spec":{"a":%q}}`, name, strings.Repeat("x", size))
	}
	account := `{"metadata":{"name":"default"},"imagePullSecrets":[{"name":"` + strings.Repeat("x", 3<<19) + `"}]}`
	h := newHandler(newThings())
	for _, tc := range []struct{ name, request, media, body, want string }{
		{"configuration", "POST " + maps, "json", body("m", 1<<20), "201"},
		{"large configuration", "POST " + maps, "json", body("n", 1<<20+1), "422 "}, // ConfigMaps have a limit of their own
		{"created", "POST " + things, "json", custom("a", 1<<20), "201"},
		{"too large", "POST " + things, "json", custom("b", 3<<19), tooLarge},
		{"too large, dry", "POST " + things + "?dryRun=All", "json", custom("b", 3<<19), "201"},
		{"too long", "POST " + things, "json", custom("b", 2<<20), tooLong},
		{"updated", "PUT /api/v1/namespaces/default/serviceaccounts/default", "json", account, tooLarge},
		{"patched", "PATCH " + things + "/a", "merge-patch+json", `{"spec":{"b":"` + strings.Repeat("x", 1<<19) + `"}}`, tooLarge},
		{"applied", "PATCH " + things + "/c?fieldManager=m", "apply-patch+yaml", custom("c", 3<<19), tooLarge},
		{
			"built in", "POST /api/v1/namespaces/default/pods", "json",
			`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","args":["` + strings.Repeat("x", 3<<19) + `"]}]}}`, tooLarge,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			method, target, _ := strings.Cut(tc.request, " ")
			got := ask(t.Context(), h, method, target, tc.body, "Content-Type", "application/"+tc.media).result(t)
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %.300s; want %s", got, tc.want)
			}
		})
	}
}

// TestDeletionTimeOfAPodStatus checks that a write of a pod's status ignores a deletion time.
func TestDeletionTimeOfAPodStatus(t *testing.T) {
	const pods = "/api/v1/namespaces/default/pods"
	h := newHandler(newServer())
	if got := ask(t.Context(), h, http.MethodPost, pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`); got.code != http.StatusCreated {
		t.Fatal(got)
	}
	const body = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"reason":"r"}}`
	for _, tc := range []struct{ method, query, media string }{
		{http.MethodPatch, "?fieldManager=m", "apply-patch+yaml"},
		{http.MethodPatch, "", "merge-patch+json"},
		{http.MethodPatch, "", "strategic-merge-patch+json"},
	} {
		got := ask(t.Context(), h, tc.method, pods+"/a/status"+tc.query, body, "Content-Type", "application/"+tc.media)
		if got.code != http.StatusOK || strings.Contains(got.body, "deletionTimestamp\":\"2026") || !strings.Contains(got.body, `"reason":"r"`) {
			t.Errorf("%s: got %d %s", tc.media, got.code, got.body)
		}
	}
	got := ask(t.Context(), h, http.MethodPatch, pods+"/a", body, "Content-Type", "application/merge-patch+json").result(t)
	if !strings.HasPrefix(got, "422 Invalid ") || !strings.Contains(got, "metadata.deletionTimestamp") {
		t.Errorf("got %s", got)
	}
}
