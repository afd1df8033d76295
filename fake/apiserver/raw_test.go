package apiserver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// jsonBody and the next ones are pairs of a header and a media type.
var (
	jsonBody  = []string{"Content-Type", "application/json"}
	yamlBody  = []string{"Content-Type", "application/yaml"}
	protoBody = []string{"Content-Type", "application/vnd.kubernetes.protobuf"}
	mergeBody = []string{"Content-Type", "application/merge-patch+json"}
	applyBody = []string{"Content-Type", "application/apply-patch+yaml"}
)

// TestRefusals checks codes, reasons and messages against a real kube-apiserver 1.36.3.
func TestRefusals(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	const unknownBody = "the body of the request was in an unknown format - accepted media types include: " +
		"application/json, application/yaml, application/vnd.kubernetes.protobuf"
	const notFound = "the server could not find the requested resource"
	const noMethod = "the server does not allow this method on the requested resource"
	const pod = "/api/v1/namespaces/default/pods/x"
	tests := []struct {
		request string // method and target
		headers []string
		body    string
		want    string // code, reason and message
	}{
		{"GET /api/v1/foo", nil, "", "404 NotFound " + notFound},
		{"GET /api/v2/pods", nil, "", "404 NotFound " + notFound},
		{"GET /apis/apps/v9/deployments", nil, "", "404 NotFound " + notFound},
		{"GET /apis/apps/v9", nil, "", "404 NotFound " + notFound},
		{"GET /api/v1/pods/x", nil, "", "404 NotFound " + notFound},
		{"GET /api/v1/namespaces/default/nodes", nil, "", "404 NotFound " + notFound},
		{"GET " + pod + "/nope", nil, "", "404 NotFound " + notFound},
		{"GET " + pod + "/log/y", nil, "", "404 NotFound " + notFound},
		{"GET " + pod + "/log", nil, "", `404 NotFound pods "x" not found`},
		{"POST " + pod + "/exec", nil, "", `404 NotFound pods "x" not found`},
		{"PUT /api/v1/pods", nil, "", "405 MethodNotAllowed " + noMethod},
		{"POST " + pod + "/status", nil, "{}", "405 MethodNotAllowed " + noMethod},
		{"GET " + pod + "/binding", nil, "", "405 MethodNotAllowed " + noMethod},
		{"DELETE /api/v1/configmaps", nil, "", "405 MethodNotAllowed " + noMethod},
		{"DELETE /api/v1/namespaces", nil, "", "405 MethodNotAllowed " + noMethod},
		{"POST /api/v1/configmaps", jsonBody, "{}", "405 MethodNotAllowed " + noMethod},
		{"HEAD /api/v1/namespaces/default", nil, "", "405 MethodNotAllowed " + noMethod},
		{"OPTIONS /api/v1/namespaces/default", nil, "", "405 MethodNotAllowed " + noMethod},
		{"POST /version", nil, "", "405 MethodNotAllowed " + noMethod},
		{"POST /api", nil, "", "405 MethodNotAllowed " + noMethod},

		{
			"POST " + maps, nil, "",
			"400 BadRequest the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; " +
				"json parse error: unexpected end of JSON input (<empty>)",
		},
		{
			"POST " + maps, jsonBody, `{"kind":"ConfigMap"`,
			"400 BadRequest the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; " +
				`json parse error: unexpected end of JSON input ({"kind":"ConfigMap")`,
		},
		{
			"POST " + maps, jsonBody, "xxxx",
			"400 BadRequest the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; " +
				"json parse error: invalid character 'x' looking for beginning of value (78787878)",
		},
		{
			"POST " + maps, yamlBody, "a: [",
			"400 BadRequest the object provided is unrecognized (must be of type ConfigMap): yaml: line 1: " +
				"did not find expected node content (613a205b)",
		},
		{
			"POST " + maps, protoBody, "a: [",
			"400 BadRequest the object provided is unrecognized (must be of type ConfigMap): provided data does not appear " +
				"to be a protobuf message, expected prefix [107 56 115 0] (613a205b)",
		},
		{
			"POST " + maps, jsonBody, "{}",
			`422 Invalid ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`,
		},
		{
			"POST " + maps, jsonBody, `{"kind":"Secret","apiVersion":"v1"}`,
			`400 BadRequest Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to ` +
				"(core.ConfigMap): unknown conversion",
		},
		{
			"POST " + maps, jsonBody, `{"kind":"ConfigMap","apiVersion":"v2"}`,
			`400 BadRequest ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered ` +
				`for version "v2" in scheme "pkg/runtime/scheme.go:111"`,
		},
		{
			"POST /api/v1/namespaces/default/events", jsonBody, `{"kind":"Event","apiVersion":"events.k8s.io/v1"}`,
			"400 BadRequest the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)",
		},
		{
			"POST " + maps, jsonBody, `{"kind":"ConfigMap","apiVersion":"v1","data":{"a":1}}`,
			`400 BadRequest ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into ` +
				"Go struct field ConfigMap.data of type string",
		},
		{
			"POST " + maps + "?fieldValidation=Strict", jsonBody,
			`{"metadata":{"name":"a"},"dataa":{"a":1},"data":{},"data":{}}`,
			`400 BadRequest ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: ` +
				`unknown field "dataa", duplicate field "data"`,
		},
		{
			"POST " + maps + "?dryRun=all", jsonBody, `{"metadata":{"name":"a"}}`,
			`422 Invalid CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["all"]: supported values: "All"`,
		},
		{
			"POST " + maps + "?fieldValidation=no", jsonBody, `{"metadata":{"name":"a"}}`,
			`422 Invalid CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "no": ` +
				`supported values: "", "Ignore", "Strict", "Warn"`,
		},
		{
			"POST " + maps, jsonBody, `{"metadata":{"name":"a","namespace":"b"}}`,
			"400 BadRequest the namespace of the provided object does not match the namespace sent on the request",
		},
		{
			"POST /api/v1/namespaces/nons/configmaps", jsonBody, `{"metadata":{"name":"a"}}`,
			`404 NotFound namespaces "nons" not found`,
		},
		{
			"PUT " + maps + "/b", jsonBody, `{"metadata":{"name":"a"}}`,
			"400 BadRequest the name of the object (a) does not match the name on the URL (b)",
		},
		{
			"PUT " + maps + "/b", jsonBody, `{}`,
			"400 BadRequest the name of the object (b based on URL) was undeterminable: name must be provided",
		},
		{"POST " + maps, []string{"Content-Type", "text/x"}, "{}", "415 UnsupportedMediaType " + unknownBody},
		{"PATCH " + maps + "/a", jsonBody, "{}", "415 UnsupportedMediaType 415: Unsupported Media Type"},
		{
			"PATCH " + maps + "/a", applyBody, "{}",
			`422 Invalid PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`,
		},
		{"PATCH " + maps + "/a", mergeBody, "{}", `404 NotFound configmaps "a" not found`},
		{
			"GET /api/v1/namespaces",
			[]string{"Accept", "application/cbor"},
			"",
			"406 NotAcceptable 406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, " +
				"application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
		},
		{
			"GET /api/v1/namespaces",
			[]string{"Accept", "application/json;as=Nope;g=meta.k8s.io;v=v1"},
			"",
			"406 NotAcceptable only the following media types are accepted: application/json, application/yaml, " +
				"application/vnd.kubernetes.protobuf",
		},
		{
			"GET /api/v1/namespaces",
			[]string{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
			"",
			"406 NotAcceptable you requested PartialObjectMetadata, but the requested object is a list (*core.NamespaceList)",
		},
		{
			"GET /api/v1/namespaces?includeObject=x",
			[]string{"Accept", "application/json;as=Table;g=meta.k8s.io;v=v1"},
			"",
			`400 BadRequest Unable to convert to Table as requested: includeObject: Invalid value: "x": ` +
				"must be 'Metadata', 'Object', 'None', or empty",
		},
		{"GET /api/v1/namespaces?limit=x", nil, "", `400 BadRequest strconv.ParseInt: parsing "x": invalid syntax`},
		{
			"GET /api/v1/namespaces?labelSelector=a%20b%20c", nil, "",
			"400 BadRequest unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
		},
		{
			"GET /api/v1/namespaces?fieldSelector=a", nil, "",
			"400 BadRequest invalid selector: 'a'; can't understand 'a'",
		},
		{"GET /api/v1/namespaces?fieldSelector=a=b", nil, "", "400 BadRequest field label not supported: a"},
		{
			"GET /api/v1/namespaces/default?resourceVersion=abc", nil, "",
			`500  resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`,
		},
		{
			"GET /api/v1/namespaces?resourceVersion=abc", nil, "",
			`400 BadRequest invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`,
		},
		{
			"GET /api/v1/namespaces?continue=!!", nil, "",
			"400 BadRequest invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
		},
		{"GET /apis/authentication.k8s.io/v1/selfsubjectreviews", nil, "", "405 MethodNotAllowed " + noMethod},
		{
			"DELETE " + maps + "/a", jsonBody, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"x"}`,
			`422 Invalid DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "x": ` +
				`supported values: "Foreground", "Background", "Orphan", "nil"`,
		},
		{
			"DELETE " + maps + "/a", jsonBody, `{"kind":"Foo","apiVersion":"v1"}`,
			`400 BadRequest no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`,
		},
		{
			"DELETE " + maps + "/a", jsonBody, `{"kind":"DeleteOptions","apiVersion":"foo/v1"}`,
			`404 NotFound configmaps "a" not found`,
		},
		{"DELETE " + maps + "/a", []string{"Content-Type", "text/x"}, "{", "415 UnsupportedMediaType " + unknownBody},
		{
			"DELETE " + maps + "/a", jsonBody, "{",
			"400 BadRequest couldn't get version/kind; json parse error: unexpected end of JSON input",
		},
		{
			"DELETE " + maps + "/a?gracePeriodSeconds=q", nil, "",
			`400 BadRequest strconv.ParseInt: parsing "q": invalid syntax`,
		},
		{
			"POST /api/v1/namespaces/default/bindings", jsonBody, `{"metadata":{"name":"a"},"target":{"name":"n"}}`,
			`404 NotFound pods "a" not found`,
		},
		{
			"POST " + pod + "/binding", jsonBody, `{"metadata":{"name":"b"},"target":{"name":"n"}}`,
			"400 BadRequest name in URL does not match name in Binding object",
		},
		{
			"POST " + pod + "/eviction", jsonBody, `{"metadata":{"name":"b"}}`,
			"400 BadRequest name in URL does not match name in Eviction object",
		},
		{
			"POST " + pod + "/eviction", jsonBody,
			`{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"x"}}`,
			`404 NotFound pods "x" not found`,
		},
		{
			"POST " + pod + "/eviction", jsonBody,
			`{"apiVersion":"policy/v2","kind":"Eviction","metadata":{"name":"x"}}`,
			`400 BadRequest Eviction in version "v2" cannot be handled as a Eviction: no kind "Eviction" is registered for ` +
				`version "policy/v2" in scheme "pkg/runtime/scheme.go:111"`,
		},
	}
	h := newHandler(newServer())
	for _, test := range tests {
		t.Run(test.request+" "+test.body, func(t *testing.T) {
			method, target, _ := strings.Cut(test.request, " ")
			r := ask(t.Context(), h, method, target, test.body, test.headers...)
			status := r.status(t)
			got := strings.Join([]string{itoa(r.code), string(status.Reason), status.Message}, " ")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if int(status.Code) != r.code {
				t.Errorf("code: got %d in the status, %d in the answer", status.Code, r.code)
			}
		})
	}
}
