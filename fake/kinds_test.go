package fake_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// The files of testdata/kinds are recorded sessions with a real server (1.36.3): a request, a line
// of dashes, and the response. A response is printed as the difference to the object in the
// request. For a patch, a write of a subresource or a deletion it is the difference to the last
// response. To record again, run the test with -real URL and review the diff. The server must allow
// everything to the bearer token "oracle", and have no controllers.
var real = flag.String("real", "", "URL of a real server, to write down what it answers")

// namespace is that of the sessions.
const namespace = "kinds"

func TestKindsMatchTheRealServer(t *testing.T) {
	files := testcheck.Must(filepath.Glob("testdata/kinds/*.txt"))
	if len(files) == 0 {
		t.Fatal("no recorded sessions")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want := string(testcheck.Must(os.ReadFile(file)))
			if *real != "" {
				got := converse(t, wire(t, *real), want, true)
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			_, c := newServer(t, "default", "kube-system", namespace)
			got := converse(t, inMemory(t, c), want, false)
			if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("(-real +ours)\n%s", d)
			}
		})
	}
}

// A reply is the response of a server: a Status or an object.
type reply struct {
	code     int
	body     map[string]any
	warnings []string
}

// ask makes a request. The path may have a query.
type ask func(method, path string, body []byte) reply

const dashes = "----\n"

// converse makes the requests of a session, and returns the session with the responses. If clear is
// set, it deletes the objects of the session before and after.
func converse(t *testing.T, do ask, text string, clear bool) string {
	t.Helper()
	var out strings.Builder
	seen := map[string]map[string]any{}
	var made []string
	if clear {
		defer func() {
			for _, path := range slices.Backward(made) {
				sweep(do, path)
			}
		}()
	}
	for _, part := range strings.SplitAfter(text, "\n\n") {
		request, _, ok := strings.Cut(part, dashes)
		if !ok { // prose
			out.WriteString(part)
			continue
		}
		line, body, _ := strings.Cut(strings.TrimLeft(request, "\n"), "\n")
		for strings.HasPrefix(line, "#") {
			line, body, _ = strings.Cut(body, "\n")
		}
		method, path, _ := strings.Cut(line, " ")
		var sent map[string]any
		if err := yaml.Unmarshal([]byte(body), &sent); err != nil && method != "JSON" {
			t.Fatalf("%s: %v", line, err)
		}
		data := testcheck.Must(yaml.YAMLToJSON([]byte(body)))
		if clear && method == "POST" && nameOf(sent) != "" && !slices.Contains(made, path+"/"+nameOf(sent)) {
			sweep(do, path+"/"+nameOf(sent))
		}
		if clear && method == "PUT" && seen[strings.TrimSuffix(path, "/finalize")] == nil {
			sweep(do, path)
		}
		got := do(method, path, data)
		if method == "PUT" && got.code == http.StatusCreated {
			made = append(made, path)
		}
		out.WriteString(request + dashes + tell(method, path, sent, got, seen, &made))
		if strings.HasSuffix(part, "\n\n") {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// sweep deletes an object, whatever its finalizers.
func sweep(do ask, path string) {
	do("DELETE", path+"?gracePeriodSeconds=0", nil)
	do("MERGE", path, []byte(`{"metadata":{"finalizers":null}}`))
	if name, ok := strings.CutPrefix(path, "/api/v1/namespaces/"); ok && !strings.Contains(name, "/") {
		do("PUT", path+"/finalize", fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name))
		do("DELETE", path, nil)
	}
}

// tell formats a response.
func tell(method, path string, sent map[string]any, got reply, seen map[string]map[string]any, made *[]string) string {
	var out strings.Builder
	fmt.Fprintln(&out, got.code)
	for _, w := range got.warnings {
		fmt.Fprintln(&out, "warning:", w)
	}
	if got.body["kind"] == "Status" {
		if got.code >= 300 {
			fmt.Fprintf(&out, "%v: %s\n", got.body["reason"], firstLine(got.body["message"]))
			details, _ := got.body["details"].(map[string]any)
			causes, _ := details["causes"].([]any)
			last := ""
			for _, c := range causes {
				cause := c.(map[string]any)
				line := fmt.Sprintf("- %v %v", cause["reason"], cause["field"])
				if line != last { // upstream repeats some messages
					fmt.Fprintln(&out, line)
				}
				last = line
			}
		} else {
			fmt.Fprintln(&out, got.body["status"])
		}
		return out.String()
	}
	if items, ok := got.body["items"].([]any); ok {
		for _, item := range items {
			fmt.Fprintln(&out, nameOf(item.(map[string]any)))
		}
		return out.String()
	}
	base := sent
	name := nameOf(got.body)
	path, _, _ = strings.Cut(path, "?")
	switch method {
	case "POST":
		if !strings.HasSuffix(path, "/"+name) && name != "" {
			path += "/" + name
			*made = append(*made, path)
		}
	default:
		path = strings.TrimSuffix(path, "/status")
		if method != "PUT" {
			base = seen[path]
		}
	}
	if method == "PUT" {
		is, old := revision(got.body), revision(seen[path])
		if is == old && seen[path] != nil {
			fmt.Fprintln(&out, "unchanged")
		}
	}
	forget(got.body)
	anonymous(got.body)
	if m, ok := got.body["metadata"].(map[string]any); ok && m["uid"] != nil {
		got.body = withoutUID(got.body, m["uid"]).(map[string]any)
	}
	before, after := map[string]string{}, map[string]string{}
	if base != nil {
		flatten("", base, before)
	}
	flatten("", got.body, after)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			fmt.Fprintf(&out, "- %s\n", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[key]; !ok || old != after[key] {
			fmt.Fprintf(&out, "%s: %s\n", key, after[key])
		}
	}
	seen[path] = got.body
	return out.String()
}

// forget removes deliberate differences of our server from a response: it sets a service account in
// pods, and does not taint nodes. It also removes cluster IPs, which depend on the configuration.
func forget(obj map[string]any) {
	spec, _ := obj["spec"].(map[string]any)
	for _, name := range []string{"serviceAccount", "serviceAccountName"} {
		if spec[name] == "default" {
			delete(spec, name)
		}
	}
	taints, _ := spec["taints"].([]any)
	for i, t := range taints {
		if t.(map[string]any)["key"] == "node.kubernetes.io/not-ready" {
			spec["taints"] = slices.Delete(taints, i, i+1)
			break
		}
	}
	if taints != nil && len(spec["taints"].([]any)) == 0 {
		delete(spec, "taints")
	}
	if ip, ok := spec["clusterIP"].(string); ok && strings.HasPrefix(ip, "10.") {
		spec["clusterIP"], spec["clusterIPs"] = "10.0.0.0", []any{"10.0.0.0"}
	}
}

func nameOf(obj map[string]any) string {
	m, _ := obj["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	return name
}

func revision(obj map[string]any) any {
	m, _ := obj["metadata"].(map[string]any)
	return m["resourceVersion"]
}

func firstLine(message any) string {
	text, _ := message.(string)
	line, _, more := strings.Cut(text, "\n")
	if more {
		line += " …"
	}
	return line
}

// flatten lists the values of an object by path, without those that differ between servers.
func flatten(path string, v any, out map[string]string) {
	if strings.HasSuffix(path, ".lastTransitionTime") && v != nil {
		v = "SET"
	}
	switch path {
	case ".metadata.uid", ".metadata.resourceVersion", ".metadata.managedFields", ".kind", ".apiVersion":
		return
	case ".metadata.creationTimestamp", ".metadata.deletionTimestamp", ".status.lastPhaseTransitionTime", ".status.token",
		".status.expirationTimestamp":
		if v == nil {
			return
		}
		v = "SET"
	}
	switch x := v.(type) {
	case map[string]any:
		for key, v := range x {
			flatten(path+"."+key, v, out)
		}
		if len(x) == 0 {
			out[path] = "{}"
		}
	case []any:
		for i, v := range x {
			flatten(fmt.Sprintf("%s[%d]", path, i), v, out)
		}
		if len(x) == 0 {
			out[path] = "[]"
		}
	default:
		out[path] = string(bytes.TrimSpace(marshal(v)))
	}
}

// withoutUID returns a value with UID instead of a UID, which labels of a job have.
func withoutUID(v, uid any) any {
	switch x := v.(type) {
	case map[string]any:
		for key := range x {
			x[key] = withoutUID(x[key], uid)
		}
	case []any:
		for i := range x {
			x[i] = withoutUID(x[i], uid)
		}
	default:
		if v == uid {
			return "UID"
		}
	}
	return v
}

// anonymous hides the suffix of a generated name.
func anonymous(obj map[string]any) {
	m, _ := obj["metadata"].(map[string]any)
	if prefix, ok := m["generateName"].(string); ok && m["name"] != nil {
		m["name"] = prefix + "…"
	}
}

func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// patchMethods are the patch methods of a session.
var patchMethods = map[string]types.PatchType{
	"MERGE": types.MergePatchType, "STRATEGIC": types.StrategicMergePatchType, "JSON": types.JSONPatchType,
}

// wire makes requests to a real server.
func wire(t *testing.T, url string) ask {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	do := func(method, path string, body []byte) reply {
		contentType := "application/json"
		if pt, ok := patchMethods[method]; ok {
			method, contentType = http.MethodPatch, string(pt)
		}
		if method == http.MethodGet || string(body) == "null" {
			body = nil
		}
		req := testcheck.Must(http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(body)))
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Authorization", "Bearer oracle")
		resp := testcheck.Must(client.Do(req))
		defer func() { _ = resp.Body.Close() }()
		got := reply{code: resp.StatusCode}
		data := testcheck.Must(io.ReadAll(resp.Body))
		if err := json.Unmarshal(data, &got.body); err != nil {
			t.Fatalf("%s %s: %s: %v", method, path, data, err)
		}
		for _, w := range resp.Header.Values("Warning") {
			_, text, _ := strings.Cut(w, `"`)
			if strings.Contains(w, "v1 Endpoints is deprecated") && (method == http.MethodGet || method == http.MethodDelete || got.code >= 300) {
				continue // ours returns it with successful writes only
			}
			got.warnings = append(got.warnings, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\"`, `"`))
		}
		return got
	}
	for _, ns := range []string{namespace, "kube-system"} {
		do("POST", "/api/v1/namespaces", fmt.Appendf(nil, `{"metadata":{"name":%q}}`, ns))
	}
	return do
}

// inMemory makes requests to our server, without HTTP.
func inMemory(t *testing.T, c *fake.Clientset) ask {
	return func(method, path string, body []byte) reply {
		path, query, _ := strings.Cut(path, "?")
		r, name, sub := untypedRoute(t, c, path)
		obj, code, warnings, err := perform(t.Context(), t, r, method, name, sub, query, body)
		if err != nil {
			var status apierrors.APIStatus
			if !errors.As(err, &status) {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			s := status.Status()
			s.Kind = "Status"
			obj, code = &s, int(s.Code)
		}
		got := reply{code: code, warnings: warnings}
		if err := utiljson.Unmarshal(marshal(obj), &got.body); err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// route returns the client for a path, the name and the subresource.
func untypedRoute(t *testing.T, c *fake.Clientset, path string) (r fake.ResourceClient, name, sub string) {
	t.Helper()
	p := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var gvr schema.GroupVersionResource
	if p[0] == "api" {
		gvr.Version, p = p[1], p[2:]
	} else {
		gvr.Group, gvr.Version, p = p[1], p[2], p[3:]
	}
	ns := ""
	if p[0] == "namespaces" && len(p) > 2 && p[2] != "status" && p[2] != "finalize" {
		ns, p = p[1], p[2:]
	}
	p = append(p, "", "")
	gvr.Resource, name, sub = p[0], p[1], p[2]
	r, ok := c.Resource(gvr, ns)
	if !ok {
		t.Fatalf("%s: no such resource", path)
	}
	if sub == "scale" {
		r, _ = r.Scale()
		sub = ""
	}
	return r, name, sub
}

// perform makes a request with a client.
func perform(ctx context.Context, t *testing.T, r fake.ResourceClient, method, name, sub, query string,
	body []byte,
) (any, int, []string, error) {
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	var done fake.Result
	var err error
	switch {
	case method == "GET" && name == "":
		found, err := r.List(ctx, metav1.ListOptions{FieldSelector: strings.TrimPrefix(query, "fieldSelector=")})
		return r.ListOf(found), 200, nil, err
	case method == "GET":
		obj, err := r.Get(ctx, name, metav1.GetOptions{})
		return obj, 200, nil, err
	case method == "POST" && sub != "":
		var meta metav1.TypeMeta
		if err := json.Unmarshal(body, &meta); err != nil {
			t.Fatal(err)
		}
		in, err := scheme.Scheme.New(meta.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		if err := utiljson.Unmarshal(body, in); err != nil {
			t.Fatal(err)
		}
		answer, err := r.CreateSubresource(ctx, name, sub, in, metav1.CreateOptions{})
		if status, ok := answer.(*metav1.Status); ok {
			status.Kind = "Status"
		}
		return answer, 201, nil, err
	case method == "POST", method == "PUT":
		in := r.New()
		if err := utiljson.Unmarshal(body, in); err != nil {
			t.Fatal(err)
		}
		if method == "POST" {
			done, err = r.Create(ctx, in, metav1.CreateOptions{})
			return done.Object, 201, done.Warnings, err
		}
		done, err = r.Update(ctx, name, in, metav1.UpdateOptions{}, subs...)
		if done.Created {
			return done.Object, 201, done.Warnings, err
		}
	case method == "DELETE":
		done, err = r.Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil && done.Deleted && r.DeleteReturnsStatus() {
			return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: "Success"}, 200, nil, nil
		}
	default:
		pt, ok := patchMethods[method]
		if !ok {
			t.Fatalf("no such method: %s", method)
		}
		done, err = r.Patch(ctx, name, pt, body, metav1.PatchOptions{}, subs...)
	}
	return done.Object, 200, done.Warnings, err
}
