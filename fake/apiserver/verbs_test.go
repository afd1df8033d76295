package apiserver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswers checks the code of the answer to each write, and the beginning of its body.
func TestAnswers(t *testing.T) {
	const maps, claims = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/persistentvolumeclaims"
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"`
	const claim = `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	const class = `{"metadata":{"name":"s"},"provisioner":"example.com/p"}`
	const lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	h := newHandler(newServer())
	tests := []struct {
		name, request string
		headers       []string
		body, want    string
	}{
		{
			"created dry", "POST " + maps + "?dryRun=All", jsonBody, `{"metadata":{"name":"a"}}`,
			`201 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a",`,
		},
		{"not there", "GET " + maps + "/a", nil, "", "404 "},
		{
			"created from YAML", "POST " + maps, yamlBody, "metadata:\n  name: a\ndata: {k: v}",
			`201 {"kind":"ConfigMap","apiVersion":"v1",`,
		},
		{
			"created again", "POST " + maps, jsonBody, `{"metadata":{"name":"a"}}`,
			`409 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"configmaps \"a\" already exists","reason":"AlreadyExists","details":{"name":"a","kind":"configmaps"},"code":409}`,
		},
		{"updated", "PUT " + maps + "/a", jsonBody, `{"metadata":{"name":"a"}}`, `200 {"kind":"ConfigMap"`},
		{
			"updated what is not there", "PUT " + maps + "/b", jsonBody, `{"metadata":{"name":"b"}}`,
			`404 {"kind":"Status"`,
		},
		{
			"created by an update", "PUT " + lease + "/l", jsonBody, `{"metadata":{"name":"l"}}`,
			`201 {"kind":"Lease","apiVersion":"coordination.k8s.io/v1"`,
		},
		{
			"applied", "PATCH " + maps + "/b?fieldManager=x", applyBody,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}", `201 {"kind":"ConfigMap"`,
		},
		{
			"applied again", "PATCH " + maps + "/b?fieldManager=x", applyBody,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}", `200 {"kind":"ConfigMap"`,
		},
		{
			"deleted dry, says the query", "DELETE " + maps + "/a?dryRun=All", nil, "",
			"200 " + status + `,"details":{"name":"a","kind":"configmaps","uid":"`,
		},
		{"it is still there", "GET " + maps + "/a", nil, "", "200 "},
		{
			"the query does not count", "DELETE " + maps + "/a?dryRun=All", jsonBody, "{}",
			"200 " + status + `,"details":{"name":"a","kind":"configmaps","uid":"`,
		},
		{"it is gone", "GET " + maps + "/a", nil, "", "404 "},
		{
			"a class", "POST /apis/storage.k8s.io/v1/storageclasses", jsonBody, class,
			`201 {"kind":"StorageClass","apiVersion":"storage.k8s.io/v1"`,
		},
		{
			"returns the deleted object", "DELETE /apis/storage.k8s.io/v1/storageclasses/s", nil, "",
			`200 {"kind":"StorageClass","apiVersion":"storage.k8s.io/v1"`,
		},
		{"a claim", "POST " + claims, jsonBody, claim, `201 {"kind":"PersistentVolumeClaim","apiVersion":"v1"`},
		{
			"stays for its finalizer", "DELETE " + claims + "/c", nil, "",
			`200 {"kind":"PersistentVolumeClaim","apiVersion":"v1"`,
		},
		{
			"and says so", "DELETE " + claims + "/c?orphanDependents=false", nil, "",
			`202 {"kind":"PersistentVolumeClaim","apiVersion":"v1"`,
		},
		{
			"status of a claim", "GET " + claims + "/c/status", nil, "",
			`200 {"kind":"PersistentVolumeClaim","apiVersion":"v1"`,
		},
		{
			"all", "DELETE " + maps, nil, "",
			`200 {"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"`,
		},
		{
			"a pod", "POST /api/v1/namespaces/default/pods", jsonBody,
			`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}]}}`, "201 ",
		},
		{
			"has no log", "GET /api/v1/namespaces/default/pods/p/log", nil, "",
			`405 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"get is not supported on resources of kind \"pods/log\"","reason":"MethodNotAllowed","details":{"kind":"pods/log"},"code":405}`,
		},
		{
			"is bound", "POST /api/v1/namespaces/default/bindings", jsonBody,
			`{"metadata":{"name":"p"},"target":{"name":"n"}}`, "201 " + status + `,"code":201}`,
		},
	}
	for _, test := range tests {
		method, target, _ := strings.Cut(test.request, " ")
		r := ask(t.Context(), h, method, target, test.body, test.headers...)
		got := itoa(r.code) + " " + r.body
		if diff := cmp.Diff(test.want, got[:min(len(got), len(test.want))]); diff != "" {
			t.Errorf("%s: (-want +got)\n%s\nof %s", test.name, diff, got)
		}
	}
}

// TestWarnings checks the warnings about unknown fields.
func TestWarnings(t *testing.T) {
	h := newHandler(newServer())
	const twice = `{"metadata":{"name":"a","labels":{"a":"b","a":"c"}},"nope":1,"nope":2}`
	tests := []struct {
		request string
		headers []string
		body    string
		want    []string
	}{
		{"POST /api/v1/namespaces/default/configmaps?dryRun=All", jsonBody, twice, []string{
			`299 - "duplicate field \"metadata.labels.a\""`, `299 - "unknown field \"nope\""`,
		}},
		{"POST /api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Ignore", jsonBody, twice, nil},
		{
			"POST /api/v1/namespaces/default/configmaps?dryRun=All", yamlBody, "metadata: {name: a}\nnope: 1\nnope: 2",
			[]string{
				`299 - "line 3: key \"nope\" already set in map"`, `299 - "unknown field \"nope\""`,
			},
		},
		{
			"PATCH /api/v1/namespaces/default?dryRun=All",
			[]string{"Content-Type", "application/strategic-merge-patch+json"},
			`{"nope":1,"nope":2,"metadata":{"labels":{"a":"b","a":"c"}}}`,
			[]string{
				`299 - "duplicate field \"nope\""`, `299 - "duplicate field \"metadata.labels.a\""`,
				`299 - "unknown field \"nope\""`,
			},
		},
		{
			"PATCH /api/v1/namespaces/default?dryRun=All",
			[]string{"Content-Type", "application/json-patch+json"},
			`[{"op":"add","path":"/nope","value":1,"x":1}]`,
			[]string{`299 - "json patch unknown field \"[0].x\""`, `299 - "unknown field \"nope\""`},
		},
	}
	for _, test := range tests {
		method, target, _ := strings.Cut(test.request, " ")
		r := ask(t.Context(), h, method, target, test.body, test.headers...)
		if diff := cmp.Diff(test.want, r.header["Warning"]); r.code > 201 || diff != "" {
			t.Errorf("%s %s: got %d (-want +got)\n%s", test.request, test.body, r.code, diff)
		}
	}
}
