package apiserver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

const things = "/apis/example.com/v1/namespaces/default/things"

// newThings returns a server with a custom resource whose spec may hold a size.
func newThings() *fake.Server {
	s := newServer()
	s.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "things", Singular: "thing", Kind: "Thing",
		ListKind:   "ThingList",
		Namespaced: true, Status: true,
		UnknownFields: func(obj *fake.CustomObject) []string {
			var unknown []string
			if spec, ok := obj.Content["spec"].(map[string]any); ok && spec["x"] != nil {
				unknown = append(unknown, "spec.x")
			}
			return unknown
		},
	})
	return s
}

// TestCustomRefusals compares with the answers of a real server that has such a custom resource.
func TestCustomRefusals(t *testing.T) {
	const notObject = "400 BadRequest the object provided is unrecognized (must be of type Thing): "
	const medias = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	const patches = "the body of the request was in an unknown format - accepted media types include: " +
		"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	tests := []struct {
		request string
		headers []string
		body    string
		want    string
	}{
		{"POST " + things, jsonBody, "{}", notObject + "Object 'Kind' is missing in '{}' ({})"},
		{
			"POST " + things, jsonBody, "",
			notObject + "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
		},
		{
			"POST " + things, jsonBody, `{"kind":"Foo","apiVersion":"example.com/v1"}`,
			`422 Invalid Foo.example.com "" is invalid: kind: Invalid value: "Foo": must be Thing`,
		},
		{
			"POST " + things, jsonBody, `{"kind":"Thing","apiVersion":"v1"}`,
			"400 BadRequest the API version in the data (v1) does not match the expected API version (example.com/v1)",
		},
		{
			"POST " + things, jsonBody, `{"kind":"Thing","apiVersion":"example.com/v1"}`,
			`422 Invalid Thing.example.com "" is invalid: metadata.name: Required value: name or generateName is required`,
		},
		{
			"POST " + things, jsonBody, `{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":1}}`,
			`400 BadRequest Thing in version "v1" cannot be handled as a Thing: json: cannot unmarshal number into Go ` +
				"struct field ObjectMeta.name of type string",
		},
		{
			"POST " + things + "?fieldValidation=Strict", jsonBody,
			`{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a","foo":1},"spec":{},"spec":{"x":1}}`,
			`400 BadRequest Thing in version "v1" cannot be handled as a Thing: strict decoding error: ` +
				`duplicate field "spec", unknown field "metadata.foo", unknown field "spec.x"`,
		},
		{"PATCH " + things + "/a", jsonBody, "{}", "415 UnsupportedMediaType " + patches},
		{
			"PATCH " + things + "/a",
			[]string{"Content-Type", "application/strategic-merge-patch+json"},
			"{}",
			"415 UnsupportedMediaType " + patches,
		},
		{"GET " + things + "/a", []string{"Accept", "text/plain"}, "", "406 NotAcceptable " + medias},
		{"GET " + things + "?fieldSelector=a=b", nil, "", "400 BadRequest field label not supported: a"},
		{
			"PUT " + things + "/a", jsonBody, `{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"b"}}`,
			"400 BadRequest the name of the object (b) does not match the name on the URL (a)",
		},
	}
	h := newHandler(newThings())
	for _, test := range tests {
		t.Run(test.request+" "+test.body, func(t *testing.T) {
			method, target, _ := strings.Cut(test.request, " ")
			r := ask(t.Context(), h, method, target, test.body, test.headers...)
			status := r.status(t)
			got := strings.Join([]string{itoa(r.code), string(status.Reason), status.Message}, " ")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestCustomObjects checks the bodies of answers about custom objects.
func TestCustomObjects(t *testing.T) {
	s := newThings()
	h := newHandler(s)
	post := func(path, body string) reply { return ask(t.Context(), h, "POST", path, body, jsonBody...) }
	r := post(things, `{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a","foo":1},"spec":{"size":1},"spec":{"size":2}}`)
	if diff := cmp.Diff([]string{
		`299 - "duplicate field \"spec\""`, `299 - "unknown field \"metadata.foo\""`,
	}, r.header["Warning"]); r.code != 201 || diff != "" {
		t.Errorf("warnings of %d: (-want +got)\n%s", r.code, diff)
	}
	const object = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",` +
		`"generation":1,"name":"a","namespace":"default","resourceVersion":"5","uid":"UID"},"spec":{"size":2}}`
	tests := []struct{ name, request, accept, want string }{
		{"one", "GET " + things + "/a", "", object + "\n"},
		{
			"all", "GET /apis/example.com/v1/things", "",
			`{"kind":"ThingList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"},"items":[` + object +
				"]}\n",
		},
		{
			"none", "GET /apis/example.com/v1/namespaces/kube-system/things", "",
			`{"kind":"ThingList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"},"items":[]}` + "\n",
		},
		{"no version", "GET /apis/example.com/v3/things", "", "404 page not found\n"},
		{"no group", "GET /apis/example.org/v1/things", "", "404 page not found\n"},
		{"no path", "GET /nope", "", "404 page not found\n"},
		{
			"deleted", "DELETE " + things + "/a", "",
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success",` +
				`"details":{"name":"a","group":"example.com","kind":"things","uid":"UID"}}` + "\n",
		},
	}
	uid := objectUID(t, r.body)
	event := askEvents(t, h, 1, "/apis/example.com/v1/watch/things", "")
	testcheck.Equal(t, "event", `{"type":"ADDED","object":`+object+"}\n", strings.ReplaceAll(event.body, uid, "UID"))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			method, target, _ := strings.Cut(test.request, " ")
			got := ask(t.Context(), h, method, target, "")
			if diff := cmp.Diff(test.want, strings.ReplaceAll(got.body, uid, "UID")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	s.Uninstall("example.com", "things")
	if got := ask(t.Context(), h, "GET", things, ""); got.code != 404 {
		t.Errorf("uninstalled: got %d %s", got.code, got.body)
	}
}
