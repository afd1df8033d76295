package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/cmd/volsim/internal/page"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/audit"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// secretDriver is the name of the driver whose calls have secrets.
const secretDriver = "secret.example.com"

// A confidant is a driver on the array. It records the requests, and fails the first call of each method.
type confidant struct {
	mu       sync.Mutex
	requests map[string]string // guarded by mu: those of a method, as text
}

// driver returns the driver.
func (d *confidant) driver() cluster.Driver {
	disks := array.New(array.Config{DriverName: secretDriver})
	return cluster.Driver{
		Name: secretDriver,
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterControllerServer(recording{r, d}, disks.Controller())
			}, nil
		},
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			server := disks.Node(at.Name, at.Disk.(*nodefs.Memory))
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterNodeServer(recording{r, d}, server)
			}, nil
		},
	}
}

// note records a request that has secrets, and returns the error of the first one of a method.
func (d *confidant) note(method string, request any) error {
	text := protojson.Format(request.(proto.Message))
	d.mu.Lock()
	defer d.mu.Unlock()
	_, again := d.requests[method]
	d.requests[method] += text
	if again || strings.HasPrefix(method, "NodeGet") || strings.HasPrefix(method, "ControllerGet") {
		return nil
	}
	return status.Error(codes.Internal, "no "+method+" today")
}

// recording registers services whose requests are recorded.
type recording struct {
	grpc.ServiceRegistrar
	driver *confidant
}

func (r recording) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i, m := range own.Methods {
		own.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, by grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, func(request any) error {
				if err := decode(request); err != nil {
					return err
				}
				return r.driver.note(m.MethodName, request)
			}, by)
		}
	}
	r.ServiceRegistrar.RegisterService(&own, impl)
}

// secretCalls are the secrets of classes and volumes, by the key of the class without its prefix, with the calls that
// must have them.
var secretCalls = map[string][]string{
	"provisioner":        {"CreateVolume", "DeleteVolume"},
	"controller-publish": {}, // our attacher passes none
	"node-stage":         {"NodeStageVolume"},
	"node-publish":       {"NodePublishVolume"},
	"controller-expand":  {"ControllerExpandVolume"},
	"node-expand":        {"NodeExpandVolume"},
	"controller-modify":  {"ControllerModifyVolume"},
	"snapshotter":        {"CreateSnapshot", "DeleteSnapshot"},
}

// marker is the value of a secret.
func marker(name string) string { return "MARKER-" + strings.ToUpper(name) }

// secretManifest has the secrets, and the classes that name them.
func secretManifest() string {
	var b strings.Builder
	for _, name := range append(slices.Sorted(maps.Keys(secretCalls)), "volume", "unused") {
		fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: default}\nstringData: {k: %s}\n---\n", name, marker(name))
	}
	keys := func(names ...string) string {
		var words []string
		for _, name := range names {
			words = append(words, fmt.Sprintf("csi.storage.k8s.io/%s-secret-name: %[1]s, csi.storage.k8s.io/%[1]s-secret-namespace: default", name))
		}
		return strings.Join(words, ", ")
	}
	fmt.Fprintf(&b, "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: secret}\nprovisioner: %s\nallowVolumeExpansion: true\nparameters: {%s}\n---\n",
		secretDriver, keys("provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand", "controller-modify"))
	fmt.Fprintf(&b, "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {name: secret}\ndriver: %s\ndeletionPolicy: Delete\nparameters: {%s}\n---\n",
		secretDriver, keys("snapshotter"))
	fmt.Fprintf(&b, "apiVersion: storage.k8s.io/v1\nkind: VolumeAttributesClass\nmetadata: {name: fast}\ndriverName: %s\nparameters: {iops: \"100\"}\n", secretDriver)
	return b.String()
}

const secretPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - name: web
    image: nginx
    volumeMounts: [{name: data, mountPath: /data}, {name: keys, mountPath: /keys}, {name: all, mountPath: /all}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: keys, secret: {secretName: volume}}
  - name: all
    projected: {sources: [{secret: {name: volume, items: [{key: k, path: p}]}}, {serviceAccountToken: {path: token, audience: vault}}]}
`

const secretClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {storageClassName: secret, accessModes: [ReadWriteOnce], resources: {requests: {storage: 32Mi}}}
`

const secretSnapshot = `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: before, namespace: default}
spec: {volumeSnapshotClassName: secret, source: {persistentVolumeClaimName: data}}
`

// A secretWorld is a cluster all of whose driver calls have secrets, with all that it writes.
type secretWorld struct {
	*testing.T
	cluster *cluster.Cluster
	driver  *confidant
	handler http.Handler // of the API, with an audit log
	audit   bytes.Buffer
	tokens  []string          // that were issued
	files   map[string]string // of the pod's volumes
	written map[string]string // that must have no secret
}

func newSecretWorld(t *testing.T) *secretWorld {
	t.Helper()
	w := &secretWorld{T: t, driver: &confidant{requests: map[string]string{}}, files: map[string]string{}, written: map[string]string{}}
	w.cluster = testcheck.Must(cluster.New(cluster.Config{
		Stepped: &sim.SteppedConfig{StepsMax: 50_000}, Nodes: 1, Drivers: []cluster.Driver{w.driver.driver()}, WithoutDriver: true,
		Snapshots: true, API: fake.Config{TrackManagedFields: true, MountTokens: true, TokenKey: []byte("key")},
	}))
	t.Cleanup(func() { testcheck.NoError(t, w.cluster.Close()) })
	w.handler = apiserver.NewHandler(w.cluster.Server(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return w.cluster.Host().ExternalCaller() },
		Audit:  testcheck.Must(audit.New(audit.Config{Out: &w.audit, Level: "RequestResponse"})),
	})
	return w
}

// snapshotResource are the snapshots.
var snapshotResource = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}

// life is the work of a user: the life of a volume.
func (w *secretWorld) life(ctx context.Context) error {
	c, client := w.cluster, w.cluster.Client()
	claims := client.CoreV1().PersistentVolumeClaims("default")
	patch := func(text string) func() error {
		return func() error {
			_, err := claims.Patch(ctx, "data", types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
	}
	wait := func(resource, name, condition string) func() error {
		return func() error { return c.WaitFor(ctx, resource, "default", name, condition) }
	}
	for i, step := range []func() error{
		func() error {
			_, err := client.StorageV1().CSIDrivers().Patch(ctx, secretDriver, types.MergePatchType,
				[]byte(`{"spec":{"tokenRequests":[{"audience":"vault"}],"podInfoOnMount":true}}`), metav1.PatchOptions{})
			return err
		},
		func() error { return c.Apply(ctx, secretManifest()) },
		func() error { return c.Apply(ctx, secretClaim) },
		func() error { return c.Apply(ctx, secretPod) },
		wait("pods", "web", "condition=Ready"),
		func() error { return w.read("keys", "k", "all", "p", "all", "token") },
		patch(`{"spec":{"resources":{"requests":{"storage":"64Mi"}}}}`),
		wait("persistentvolumeclaims", "data", "jsonpath={.status.capacity.storage}=64Mi"),
		patch(`{"spec":{"volumeAttributesClassName":"fast"}}`),
		wait("persistentvolumeclaims", "data", "jsonpath={.status.currentVolumeAttributesClassName}=fast"),
		func() error { return c.Apply(ctx, secretSnapshot) },
		wait("volumesnapshots.snapshot.storage.k8s.io", "before", "jsonpath={.status.readyToUse}=true"),
		func() error {
			snapshots := c.Server().Client(c.Host().ExternalCaller()).Dynamic().Resource(snapshotResource)
			return snapshots.Namespace("default").Delete(ctx, "before", metav1.DeleteOptions{})
		},
		func() error {
			return c.WaitForGone(ctx, "volumesnapshots.snapshot.storage.k8s.io", "default", "before")
		},
		func() error { return client.CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}) },
		func() error { return c.WaitForGone(ctx, "pods", "default", "web") },
		func() error { return claims.Delete(ctx, "data", metav1.DeleteOptions{}) },
		func() error { return c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// read reads files of the pod's volumes.
func (w *secretWorld) read(files ...string) error {
	for pair := range slices.Chunk(files, 2) {
		data, err := w.cluster.ReadFile("default", "web", pair[0], pair[1])
		if err != nil {
			return err
		}
		w.files["/"+pair[1]] = string(data)
	}
	return nil
}

// leaks returns the secrets that are in a text: as they are, or encoded.
func (w *secretWorld) leaks(text string) []string {
	all := slices.Clone(w.tokens)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(secretCalls)), []string{"volume", "unused", "sent"}) {
		all = append(all, marker(name))
	}
	return leaksOf(text, all...)
}

// leaksOf returns which of the secrets are in a text: as they are, or in base64 or hexadecimal digits.
func leaksOf(text string, secrets ...string) []string {
	found := map[string]bool{}
	for _, secret := range secrets {
		for _, form := range []string{
			secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)),
			secret[:min(len(secret), 8)], // the beginning of a value that is cut
		} {
			if strings.Contains(text, form) {
				found[secret+" as "+form] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// issued adds the tokens in a text, in the form of JSON, to those that must not be written.
func (w *secretWorld) issued(text string) {
	for _, m := range tokenPattern.FindAllString(text, -1) {
		w.tokens = append(w.tokens, m[strings.LastIndex(m, ".")+1:]) // its signature: the rest may be alike
	}
}

// tokenPattern matches the signed tokens of service accounts.
var tokenPattern = regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]+\.[\w-]{20,}`)

// write adds a text that must have no secret.
func (w *secretWorld) write(what, text string) { w.written[what] += text }

// request makes a request to the API server, and returns the body of the response.
func (w *secretWorld) request(method, path, media, body string) (code int, answer string) {
	r := httptest.NewRequestWithContext(w.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	return out.Code, out.Body.String()
}

// TestSecretsAreWrittenNowhere runs a world in which each call of the driver has a secret, and fails once, and
// makes requests with secrets. It looks for the secrets in all that volsim writes. They are where they belong: with the
// driver, the files of the pod, and clients of the API server.
func TestSecretsAreWrittenNowhere(t *testing.T) {
	w := newSecretWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.cluster.User("user", w.life)
	testcheck.NoError(t, w.cluster.Run(ctx))
	w.calls()
	w.requests()
	w.credentials()
	w.write("audit log", w.audit.String())
	w.records()
	for what, text := range w.written {
		if text == "" {
			t.Errorf("%s: nothing was written", what)
		}
		for _, leak := range w.leaks(text) {
			t.Errorf("%s contains %s", what, leak)
		}
	}
}

// calls checks that the driver got the secrets and tokens.
func (w *secretWorld) calls() {
	for name, methods := range secretCalls {
		for _, method := range methods {
			if !strings.Contains(w.driver.requests[method], marker(name)) {
				w.Errorf("the driver's requests %s have no secret %s:\n%s", method, name, w.driver.requests[method])
			}
		}
	}
	w.issued(w.driver.requests["NodePublishVolume"])
	if len(w.tokens) == 0 {
		w.Error("the driver got no token")
	}
	for what, read := range w.files {
		if what == "/token" {
			w.issued(read)
		} else if read != marker("volume") {
			w.Errorf("the pod's file %s has %q", what, read)
		}
	}
}

// requests makes requests about secrets. Errors are written, objects are not.
func (w *secretWorld) requests() {
	const secrets, reviews = "/api/v1/namespaces/default/secrets", "/apis/authentication.k8s.io/v1/tokenreviews"
	sent := marker("sent")
	object := func(fields string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"sent"},` + fields + `}`
	}
	for _, tt := range []struct {
		method, path, media, body string
		want                      int
	}{
		{"POST", secrets, "json", object(`"stringData":{"k":"` + sent + `"}`), 201},
		{"POST", secrets, "json", object(`"stringData":{"k":"` + sent + `"}`), 409},
		{"PUT", secrets + "/sent", "json", object(`"stringData":{"k":"` + sent + `","l":"` + sent + `"}`), 200},
		{"PATCH", secrets + "/sent", "merge-patch+json", `{"stringData":{"m":"` + sent + `"}}`, 200},
		{"PATCH", secrets + "/sent", "json-patch+json", `[{"op":"add","path":"/data/n","value":"` + base64.StdEncoding.EncodeToString([]byte(sent)) + `"}]`, 200},
		{"PATCH", secrets + "/sent?fieldManager=m", "apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: sent}\nstringData: {o: " + sent + "}\n", 200},
		{"PATCH", secrets + "/sent?fieldManager=m", "apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: sent}\nstringData: {o: &a " + sent + ", p: *a}\n", 200},
		{"PATCH", secrets + "/sent", "merge-patch+json", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + sent + `"}}}`, 200},
		{"POST", secrets, "json", `{"` + sent + `"`, 400},
		{"POST", secrets, "json", `{"stringData":{"k":"` + sent + `"},"stringData":`, 400},
		{"POST", secrets, "json", object(`"stringData":"` + sent + `"`), 400},
		{"POST", secrets, "json", object(`"data":{"k":"` + sent + `"}`), 400},
		{"POST", secrets, "json", object(`"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"` + sent + `"}`), 422},
		{"POST", secrets, "yaml", sent, 400},
		{"POST", secrets, "yaml", "stringData: {k: " + sent + "}\n  x: y", 400},
		{"POST", secrets, "vnd.kubernetes.protobuf", "k8s\x00" + sent, 400},
		{"POST", secrets, "vnd.kubernetes.protobuf", sent, 400},
		{"PATCH", secrets + "/sent", "merge-patch+json", `{"data":{"k":"` + sent, 400},
		{"PATCH", secrets + "/sent", "merge-patch+json", `{"data":"` + sent + `"}`, 422},
		{"PATCH", secrets + "/sent", "strategic-merge-patch+json", `{"data":"` + sent + `"}`, 422},
		{"PATCH", secrets + "/sent", "json-patch+json", `[{"op":"test","path":"/data/n","value":"` + sent + `"}]`, 422},
		{"PATCH", secrets + "/sent", "json-patch+json", `[{"op":"` + sent + `","path":"/data/n","value":"` + sent + `"}]`, 422},
		{"PATCH", secrets + "/sent?fieldManager=n", "apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: sent}\ndata: " + sent + "\n", 500},
		{"PATCH", secrets + "/sent?fieldManager=n", "apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: sent}\ndata: {k: [" + sent + "]}\n", 500},
		{"PATCH", secrets + "/sent?fieldManager=n", "apply-patch+yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: sent}\ndata: {q: " + sent + "}\n", 500},
		{"PATCH", secrets + "/sent?fieldManager=n", "apply-patch+yaml", sent, 400},
		{"POST", reviews, "json", `{"spec":{"token":"` + sent + `"}}`, 201},
		{"POST", reviews, "json", `{"spec":{"token":["` + sent + `"]}}`, 400},
		{"POST", reviews, "json", `{"` + sent + `"`, 400},
		{"GET", secrets + "/" + "unused", "json", "", 200},
		{"GET", secrets, "json", "", 200},
		{"DELETE", secrets, "json", "", 200},
		{"POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "json", `{"spec":{"audiences":["vault"]}}`, 201},
	} {
		code, answer := w.request(tt.method, tt.path, "application/"+tt.media, tt.body)
		if code != tt.want {
			w.Errorf("%s %s %s: %d %s", tt.method, tt.path, tt.body, code, answer)
		}
		if code >= http.StatusBadRequest {
			w.write("error of "+tt.method+" "+tt.media+" "+tt.body, answer)
			continue
		}
		w.issued(answer)
		if tt.method == "GET" && !strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(marker("unused")))) {
			w.Errorf("%s has no secret: %s", tt.path, answer)
		}
	}
}

// credentials makes requests by HTTPS with a client certificate, the listener's token, and a wrong token.
func (w *secretWorld) credentials() {
	authority := testcheck.Must(apiserver.NewAuthority())
	listener := testcheck.Must(apiserver.Listen(apiserver.ListenConfig{
		Handler: w.handler, Authority: authority, Token: w.cluster.Server().AuthenticateToken,
	}))
	defer func() { testcheck.NoError(w.T, listener.Close()) }()
	cert, key, err := authority.NewClient("ann", "dev")
	testcheck.NoError(w.T, err)
	own, byCert, broken := listener.Config(), listener.Config(), listener.Config()
	byCert.BearerToken, byCert.CertData, byCert.KeyData = "", cert, key
	broken.BearerToken = marker("sent")
	for config, want := range map[*clientrest.Config]int{own: http.StatusOK, byCert: http.StatusOK, broken: http.StatusUnauthorized} {
		req := testcheck.Must(http.NewRequestWithContext(w.Context(), http.MethodGet, listener.URL()+"/api/v1/nodes", nil))
		resp := testcheck.Must(testcheck.Must(clientrest.HTTPClientFor(config)).Do(req))
		testcheck.NoError(w.T, resp.Body.Close())
		testcheck.Equal(w.T, "code", want, resp.StatusCode)
	}
	if !strings.Contains(w.audit.String(), `"username":"ann"`) {
		w.Error("the request with the certificate is not in the audit log")
	}
	w.tokens = append(w.tokens, own.BearerToken, strings.Split(string(key), "\n")[1])
}

// records writes all forms of the record of the world.
func (w *secretWorld) records() {
	c := w.cluster
	w.write("trace", c.Trace().Text())
	records := c.Trace().Records()
	for _, r := range records {
		w.write("described records", trace.DescribeAny(r)+"\n")
		if words, ok := trace.Describe(r); ok {
			w.write("described records", words+"\n")
		}
		w.write("changes", strings.Join(trace.Changes(r.Before, r.After), " ")+"\n")
	}
	for name, draw := range map[string]func([]trace.Record, picture.Options) *picture.Drawing{
		"space-time": picture.SpaceTime, "sequence": picture.Sequence, "timeline": picture.Timeline, "states": picture.States,
	} {
		d := draw(records, picture.Options{Title: "secrets"})
		w.write("picture "+name, string(d.SVG())+d.Mermaid()+d.Text())
	}
	live := page.NewLive(c)
	w.write("page", string(testcheck.Must(json.Marshal(live.State()))))
	for _, resource := range []string{"events", "persistentvolumes", "volumeattachments", "storageclasses", "csidrivers", "csinodes", "nodes"} {
		w.write("stored "+resource, string(testcheck.Must(json.Marshal(c.Server().List(resource))))+"\n")
	}
	w.write("pending", fmt.Sprintln(c.Pending()))
}
