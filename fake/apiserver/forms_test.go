package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// newMap returns a server with one config map, and the config map's UID.
func newMap(t *testing.T, data string) (*fake.Server, string) {
	s := newServer()
	m := testcheck.Must(s.Client(direct).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": data},
		}, metav1.CreateOptions{}))
	return s, string(m.UID)
}

// TestForms requests one object and a list in every form.
func TestForms(t *testing.T) {
	const one, all = "/api/v1/namespaces/default/configmaps/a", "/api/v1/configmaps?limit=5&fieldSelector=metadata.name=a"
	const head = `"metadata":{"name":"a","namespace":"default","uid":"UID","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z"}`
	const meta = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + head + "}"
	as := func(kind string) string { return "application/json;as=" + kind + ";g=meta.k8s.io;v=v1" }
	tests := []struct{ name, target, accept, media, want string }{
		{"JSON", one, "", "application/json", `{"kind":"ConfigMap","apiVersion":"v1",` + head + `,"data":{"k":"v"}}` +
			"\n"},
		{
			"list", all, "*/*", "application/json",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{` + head +
				`,"data":{"k":"v"}}]}` + "\n",
		},
		{
			"pretty", one + "?pretty=true", "application/json", "application/json",
			"{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"name\": \"a\",\n    \"namespace\": \"default\",\n" +
				"    \"uid\": \"UID\",\n    \"resourceVersion\": \"5\",\n    \"creationTimestamp\": \"2026-01-01T00:00:00Z\"\n  },\n" +
				"  \"data\": {\n    \"k\": \"v\"\n  }\n}",
		},
		{
			"YAML", one, "application/yaml", "application/yaml",
			"apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\nmetadata:\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\n  name: a\n" +
				"  namespace: default\n  resourceVersion: \"5\"\n  uid: UID\n",
		},
		{
			"the first that can be", one, "application/cbor,text/html;q=0.5,application/json;q=0.1", "application/json",
			"",
		},
		{
			"protobuf", one, "application/vnd.kubernetes.protobuf,application/json",
			"application/vnd.kubernetes.protobuf", "",
		},
		{"metadata", one, as("PartialObjectMetadata"), "application/json", meta + "\n"},
		{
			"metadata of a list", all, as("PartialObjectMetadataList"), "application/json",
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[` + meta + "]}\n",
		},
		{"unknown conversion, or as it is", one, as("Nope") + ",application/json", "application/json", ""},
	}
	s, uid := newMap(t, "v")
	h := newHandler(s)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ask(t.Context(), h, "GET", test.target, "", "Accept", test.accept)
			if got.code != 200 || got.header.Get("Content-Type") != test.media {
				t.Errorf("got %d %s, want 200 %s", got.code, got.header.Get("Content-Type"), test.media)
			}
			if diff := cmp.Diff(test.want, strings.ReplaceAll(got.body, uid, "UID")); test.want != "" && diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestTables requests tables with every value of includeObject.
func TestTables(t *testing.T) {
	s, _ := newMap(t, "v")
	h := newHandler(s)
	const all = "/api/v1/namespaces/default/configmaps"
	for option, want := range map[string]string{
		"": "PartialObjectMetadata", "Metadata": "PartialObjectMetadata", "Object": "ConfigMap", "None": "",
	} {
		for _, target := range []string{all, all + "/a"} {
			r := ask(t.Context(), h, "GET", target+"?fieldSelector=metadata.name!=kube-root-ca.crt&includeObject="+option,
				"",
				"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
			var table metav1.Table
			if err := json.Unmarshal([]byte(r.body), &table); err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 1 || table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" ||
				table.ResourceVersion != "5" {
				t.Fatalf("got %s", r.body)
			}
			var head metav1.TypeMeta
			if raw := table.Rows[0].Object.Raw; raw != nil {
				if err := json.Unmarshal(raw, &head); err != nil {
					t.Fatal(err)
				}
			}
			if head.Kind != want {
				t.Errorf("includeObject=%s: got %q, want %q", option, head.Kind, want)
			}
		}
	}
	testcheck.Must(s.Client(direct).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
	}, metav1.CreateOptions{}))
	r := askEvents(t, h, 2, all+"?fieldSelector=metadata.name!=kube-root-ca.crt&watch=1",
		"application/json;as=Table;v=v1;g=meta.k8s.io")
	var columns []int
	for line := range strings.SplitSeq(strings.TrimSpace(r.body), "\n") {
		var e struct {
			Object metav1.Table `json:"object"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		columns = append(columns, len(e.Object.ColumnDefinitions))
	}
	if len(columns) != 2 || columns[0] == 0 || columns[1] != 0 {
		t.Errorf("columns in events: got %v, want some and none", columns)
	}
}

// TestLargeAnswersAreCompressed checks that only large answers to clients that accept gzip are
// compressed.
func TestLargeAnswersAreCompressed(t *testing.T) {
	large := strings.Repeat("x", 200<<10)
	for _, test := range []struct {
		name, data, accept string
		want               string
	}{
		{"large", large, "deflate, gzip", "gzip"},
		{"small", "v", "gzip", ""},
		{"not asked for", large, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newMap(t, test.data)
			r := ask(t.Context(), newHandler(s), "GET", "/api/v1/configmaps", "", "Accept-Encoding", test.accept)
			if got := r.header.Get("Content-Encoding"); got != test.want {
				t.Errorf("encoding: got %q, want %q", got, test.want)
			}
			body := []byte(r.body)
			if test.want != "" {
				body = testcheck.Must(io.ReadAll(testcheck.Must(gzip.NewReader(bytes.NewReader(body)))))
			}
			if !bytes.Contains(body, []byte(test.data)) {
				t.Errorf("the data is not in %d bytes", len(body))
			}
		})
	}
}

// TestPages requests the paths that do not belong to a resource.
func TestPages(t *testing.T) {
	h := newHandler(newServer())
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, test := range []struct{ target, accept, media, begins string }{
		{"/healthz", "", "text/plain; charset=utf-8", "ok"},
		{"/livez/ping", "", "text/plain; charset=utf-8", "ok"},
		{"/readyz?verbose", "", "text/plain; charset=utf-8", "[+]ping ok\nreadyz check passed\n"},
		{"/version", "", "application/json", "{\n  \"major\": \"1\",\n  \"minor\": \"36\",\n"},
		{"/", "", "application/json", "{\n  \"paths\": [\n    \"/api\",\n    \"/api/v1\",\n    \"/apis\",\n"},
		{
			"/api", "", "application/json",
			`{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"example.com"}]}`,
		},
		{"/apis", "", "application/json", `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"`},
		{
			"/apis/storage.k8s.io/", "", "application/json", `{"kind":"APIGroup","apiVersion":"v1","name":"storage.k8s.io",` +
				`"versions":[{"groupVersion":"storage.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"storage.k8s.io/v1","version":"v1"}}`,
		},
		{
			"/api/v1", "", "application/json",
			`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]},`,
		},
		{
			"/api", aggregated + ",application/json", aggregated,
			`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[{"version":"v1",` +
				`"resources":[{"resource":"bindings","responseKind":{"group":"","version":"","kind":"Binding"},"scope":"Namespaced",`,
		},
		{
			"/api", strings.Replace(aggregated, "v=v2", "v=v2beta1", 1) + ",application/json", "application/json",
			`{"kind":"APIVersions"`,
		},
		{"/openapi/v2", "", "application/json", "{"},
		{"/openapi/v3", "", "text/plain; charset=utf-8", `{"paths":{`},
		{"/openapi/v3/api/v1", "", "application/json", `{"openapi":"3.0.0"`},
	} {
		t.Run(test.target, func(t *testing.T) {
			r := ask(t.Context(), h, "GET", test.target, "", "Accept", test.accept)
			if r.code != 200 || r.header.Get("Content-Type") != test.media {
				t.Errorf("got %d %s, want 200 %s", r.code, r.header.Get("Content-Type"), test.media)
			}
			if !strings.HasPrefix(r.body, test.begins) {
				t.Errorf("got  %s\nwant %s", r.body[:min(len(r.body), len(test.begins))], test.begins)
			}
			if tag := r.header.Get("ETag"); tag != "" {
				again := ask(t.Context(), h, "GET", test.target, "", "Accept", test.accept, "If-None-Match", tag)
				if again.code != 304 || again.body != "" {
					t.Errorf("again: got %d %s, want 304", again.code, again.body)
				}
			}
		})
	}
}

// TestDocumentsByHash requests an OpenAPI document with its hash and with another.
func TestDocumentsByHash(t *testing.T) {
	s := newThings()
	h := newHandler(s)
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	find := func() string {
		t.Helper()
		if err := json.Unmarshal([]byte(ask(t.Context(), h, "GET", "/openapi/v3", "").body), &index); err != nil {
			t.Fatal(err)
		}
		return index.Paths["apis/example.com/v1"].ServerRelativeURL
	}
	at := find()
	if r := ask(t.Context(), h, "GET", at, ""); r.code != 200 || r.header.Get("Cache-Control") != "public, immutable" {
		t.Errorf("%s: got %d %s", at, r.code, r.header)
	}
	path, _, _ := strings.Cut(at, "?")
	if r := ask(t.Context(), h, "GET", path+"?hash=old", ""); r.code != 301 || r.header.Get("Location") != at {
		t.Errorf("%s?hash=old: got %d %s", path, r.code, r.header)
	}
	s.Uninstall("example.com", "things")
	clear(index.Paths)
	if again := find(); again != "" {
		t.Errorf("uninstalled: got %s", again)
	}
}
