package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/session"
)

func newStepped(t *testing.T) *Stepped {
	t.Helper()
	d, err := NewStepped(SteppedConfig{Headers: []string{"nodes: 2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func do(t *testing.T, d *Stepped, ops ...string) Result {
	t.Helper()
	var last Result
	for _, op := range ops {
		var err error
		if last, err = d.Do(op); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// clientOf returns an HTTP client of the world's API.
func clientOf(t *testing.T, d *Stepped) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return kubernetes.NewForConfigOrDie(&clientrest.Config{Host: server.URL, UserAgent: "kubectl/v1", QPS: -1})
}

// stateOf returns the state of an object, or "" if it does not exist.
func stateOf(w World, name string) string {
	for _, o := range w.State().Objects {
		if o.Name == name {
			return o.State
		}
	}
	return ""
}

func TestOperationsChangeTheState(t *testing.T) {
	d := newStepped(t)
	before, changed := d.Changes()
	result := do(t, d, "create claim data 64Mi")
	if result.Advanced || !strings.Contains(result.Message, "creates claim default/data of 64Mi") {
		t.Errorf("create claim: %+v", result)
	}
	select {
	case <-changed:
	default:
		t.Error("no change notification")
	}
	s := d.State()
	if s.Version <= before {
		t.Errorf("version %d, want more than %d", s.Version, before)
	}
	if got := s.Objects[0]; got.Name != "claim default/data" || got.State != "Pending, 64Mi requested" || len(got.Stale) == 0 || got.Stale[0] != (StaleCopy{Component: "pvcontroller", State: "none"}) {
		t.Errorf("claim: %+v", got)
	}
	first := s.Controls.Next[0]
	if first.Task != "pvcontroller/cache persistentvolumeclaims" || first.Label != "the claim cache of pvcontroller" {
		t.Errorf("next step: %+v", first)
	}
	if got := do(t, d, "step"); !got.Advanced {
		t.Errorf("step did not advance the world: %+v", got)
	}
	if got := do(t, d, "rest", "step"); got.Advanced || !strings.Contains(got.Message, "nothing left to do") {
		t.Errorf("step at rest: %+v", got)
	}
}

func TestHeldTasksCanBeReleased(t *testing.T) {
	d := newStepped(t)
	do(t, d, "create claim data 64Mi", "hold provisioner", "hold pvcontroller/cache persistentvolumeclaims", "rest")
	c := d.State().Controls
	held := map[string]string{}
	for _, o := range c.Next {
		held[o.Task] = o.Held
	}
	want := map[string]string{
		"pvcontroller/cache persistentvolumeclaims": "pvcontroller/cache persistentvolumeclaims",
		"provisioner/cache persistentvolumeclaims":  "provisioner",
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("held by: %s", diff)
	}
	for _, by := range held {
		do(t, d, "release "+by)
	}
	do(t, d, "rest")
	if got := stateOf(d, "claim default/data"); !strings.HasPrefix(got, "Bound") {
		t.Errorf("claim after release: %q", got)
	}
}

// TestOfferedOperationsAreValid executes every operation that the page offers as a button.
func TestOfferedOperationsAreValid(t *testing.T) {
	begin := []string{"create claim data 64Mi", "create pod web data", "step 14"}
	d := newStepped(t)
	do(t, d, begin...)
	c := d.State().Controls
	ops := c.Other
	for _, p := range c.Targets {
		for _, op := range p.Ops {
			if !strings.HasSuffix(op, " behind") || strings.HasPrefix(op, "crash pvcontroller") {
				ops = append(ops, op)
			}
		}
		if p.Component {
			ops = append(ops, "hold "+p.Name)
		}
	}
	for _, f := range c.Faults {
		ops = append(ops, "fail "+f, "fail "+f+" provisioner")
	}
	for _, o := range c.Next {
		ops = append(ops, "step "+o.Task, "hold "+o.Task)
		for _, f := range o.Faults {
			ops = append(ops, "fail "+f+" "+strings.Split(o.Task, "/")[0])
		}
	}
	if len(ops) < 60 {
		t.Fatalf("%d operations offered, want at least 60: %v", len(ops), ops)
	}
	for _, op := range ops {
		do(t, d, op)
		if _, err := d.Undo(); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.State().Controls.Ops; cmp.Diff(begin, got) != "" {
		t.Errorf("operations after undo: %v", got)
	}
}

func TestDriverIsListedWithItsNode(t *testing.T) {
	for _, p := range newStepped(t).State().Controls.Targets {
		if p.Name == "node-1" {
			if diff := cmp.Diff([]string{"reboot node-1", "partition node-1", "stop driver(node-1)"}, p.Ops); diff != "" {
				t.Error(diff)
			}
			return
		}
	}
	t.Error("node-1 not listed")
}

func TestUndoReplaysAllButTheLastOperation(t *testing.T) {
	d := newStepped(t)
	if _, err := d.Undo(); err == nil || !strings.Contains(err.Error(), "nothing to undo") {
		t.Errorf("undo without operations: %v", err)
	}
	ops := []string{"create claim data 64Mi", "step 20", "crash pvcontroller", "rest"}
	do(t, d, ops[:3]...)
	want := d.History().Records
	do(t, d, ops[3])
	version, _ := d.Changes()
	if _, err := d.Undo(); err != nil {
		t.Fatal(err)
	}
	got := d.History().Records
	if len(got) != len(want) {
		t.Fatalf("%d actions after undo, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].String() != want[i].String() {
			t.Fatalf("action %d is %s, want %s", i, got[i], want[i])
		}
	}
	if now, _ := d.Changes(); now <= version {
		t.Errorf("version went from %d to %d", version, now)
	}
	if _, err := d.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := d.State(); len(got.Controls.Ops) != 0 || stateOf(d, "claim default/data") != "" {
		t.Errorf("after reset: objects %v, operations %v", got.Objects, got.Controls.Ops)
	}
}

func TestInvalidOperationsReturnHelpfulErrors(t *testing.T) {
	d := newStepped(t)
	for op, want := range map[string]string{
		"": "such as: create claim data 64Mi", "  ": "such as", "a\nb": "one operation at a time", "nonsense": `unknown operation "nonsense"`,
		"crash unknown": `no such target "unknown"`, "create claim data much": "size",
	} {
		if _, err := d.Do(op); err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(err.Error(), "session:") {
			t.Errorf("%q: %v, want %q", op, err, want)
		}
	}
}

func TestRequestsTakeEffectBeforeDeliveries(t *testing.T) {
	d := newStepped(t)
	client := clientOf(t, d)
	before := len(d.History().Records)
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := len(d.History().Records); got != before {
		t.Errorf("list added %d records", got-before)
	}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := d.State()
	if got := s.Objects[0]; got.Name != "claim default/data" || len(got.Stale) == 0 {
		t.Errorf("claim: %+v", got)
	}
	const path = "request POST /api/v1/namespaces/default/persistentvolumeclaims as=kubectl type=protobuf "
	if len(s.Controls.Ops) != 1 || !strings.HasPrefix(s.Controls.Ops[0], path) {
		t.Errorf("operations: %q", s.Controls.Ops)
	}
	if !strings.Contains(s.Controls.Story, "creates claim default/data of 64Mi") {
		t.Errorf("not in the story: %s", s.Controls.Story)
	}
	do(t, d, "rest")
	bound := stateOf(d, "claim default/data")
	if !strings.HasPrefix(bound, "Bound to") {
		t.Errorf("claim at rest: %q", bound)
	}
	// Undo replays requests of clients.
	do(t, d, "create pod web data")
	if _, err := d.Undo(); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(d, "claim default/data"); got != bound {
		t.Errorf("claim after undo: %q, want %q", got, bound)
	}
	for range 2 {
		if _, err := d.Undo(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("undone claim exists: %v", err)
	}
}

func TestRejectedRequestsAreRecorded(t *testing.T) {
	d := newStepped(t)
	client := clientOf(t, d)
	err := client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "none", metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("delete missing claim: %v", err)
	}
	if ops := d.State().Controls.Ops; len(ops) != 1 || !strings.HasPrefix(ops[0], "request DELETE /api/v1/namespaces/default/persistentvolumeclaims/none ") {
		t.Errorf("operations: %q", ops)
	}
	if story := d.State().Controls.Story; !strings.Contains(story, "persistentvolumeclaims \"none\" not found") {
		t.Errorf("no reason in the story: %s", story)
	}
}

func TestWatchesEndWithTheWorld(t *testing.T) {
	for name, end := range map[string]func(*Stepped) error{
		"close": (*Stepped).Close,
		"undo":  func(d *Stepped) error { _, err := d.Undo(); return err },
		"reset": func(d *Stepped) error { _, err := d.Reset(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			d := newStepped(t)
			client := clientOf(t, d)
			claims := client.CoreV1().PersistentVolumeClaims("default")
			watch, err := claims.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			do(t, d, "create claim data 64Mi", "rest")
			for e := range watch.ResultChan() {
				if c, ok := e.Object.(*corev1.PersistentVolumeClaim); ok && c.Status.Phase == corev1.ClaimBound {
					break
				}
			}
			latest := d.world.session.Cluster().Server().Revision()
			if err := end(d); err != nil {
				t.Fatal(err)
			}
			for range watch.ResultChan() { // until it ends
				continue
			}
			if name == "close" {
				return
			}
			_, err = claims.Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(latest)})
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("watch from undone revision %d: %v", latest, err)
			}
		})
	}
}

// TestConcurrentOperationsAndRequests checks that all of them take effect and can be replayed.
func TestConcurrentOperationsAndRequests(t *testing.T) {
	d := newStepped(t)
	client := clientOf(t, d)
	var all sync.WaitGroup
	const claims = 12
	all.Go(func() {
		for range 60 {
			do(t, d, "step")
		}
	})
	all.Go(func() {
		for i := range claims {
			name := fmt.Sprintf("c%d", i)
			if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim(name, "64Mi"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		for range 20 {
			d.History().draw(100, 0, nil, false)
			d.State()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := client.CoreV1().PersistentVolumeClaims("default").Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() {
		for range watch.ResultChan() {
			continue
		}
	})
	all.Go(func() {
		defer cancel()
		for range claims {
			if _, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	do(t, d, "rest")
	for i := range claims {
		if got := stateOf(d, fmt.Sprintf("claim default/c%d", i)); !strings.HasPrefix(got, "Bound") {
			t.Errorf("claim %d: %q", i, got)
		}
	}
	want := d.world.session.Log().Text()
	do(t, d, "# undone")
	if _, err := d.Undo(); err != nil {
		t.Fatal(err)
	}
	if got := d.world.session.Log().Text(); got != want {
		t.Errorf("replay differs: %s", cmp.Diff(want, got))
	}
}

func TestClosedWorldReturnsErrors(t *testing.T) {
	d := newStepped(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Do("step"); err == nil || !strings.Contains(err.Error(), "start volsim serve again") {
		t.Errorf("step: %v", err)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/nodes", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("request: status %d", w.Code)
	}
	if got := d.State(); got.Controls != nil || len(got.Objects) != 0 {
		t.Errorf("state: %+v", got)
	}
}

func TestOpsCanBeReplayed(t *testing.T) {
	d := newStepped(t)
	do(t, d, "create claim data 64Mi", "hold scheduler", "rest")
	s, err := session.New(d.Ops()...).Play()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.Log().Text(), d.world.session.Log().Text(); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestNextStepsHaveDifferentLabels(t *testing.T) {
	d := newStepped(t)
	do(t, d, "create claim a 64Mi", "create claim b 64Mi", "hold provisioner", "settle", "release provisioner",
		"create pod first a on=node-1", "create pod second b on=node-1")
	held := false
	for do(t, d, "step").Advanced {
		next := d.State().Controls.Next
		entries := map[string]bool{}
		for _, o := range next {
			if entries[o.Label] {
				t.Fatalf("two next steps are called %q", o.Label)
			}
			entries[o.Label] = true
		}
		i := slices.IndexFunc(next, func(o Option) bool { return o.Label == "provisioner/claims#2" })
		if i < 0 || held {
			continue
		}
		held = true
		do(t, d, "hold "+next[i].Hold)
		for _, o := range d.State().Controls.Next {
			if strings.HasPrefix(o.Label, "provisioner/claims") && o.Held != "provisioner/claims" {
				t.Errorf("%s is held by %q, want provisioner/claims", o.Label, o.Held)
			}
		}
		do(t, d, "step "+next[i].Task, "release "+next[i].Hold)
	}
	if !held {
		t.Error("never two workers of one queue")
	}
}

func TestOperationsOnDifferentVolumesHaveDifferentLabels(t *testing.T) {
	options := []Option{
		{Task: "attachdetach/attach kubernetes.io/csi/a.example.com^one", Label: "attachdetach/attach"},
		{Task: "attachdetach/attach kubernetes.io/csi/a.example.com^two", Label: "attachdetach/attach"},
		{Task: "attachdetach/volumes", Label: "attachdetach/volumes"},
	}
	distinguishLabels(options)
	if a, b, c := options[0].Label, options[1].Label, options[2].Label; a == b || !strings.HasSuffix(a, "^one") || c != "attachdetach/volumes" {
		t.Errorf("labels %q, %q and %q", a, b, c)
	}
}

// reasons returns why an object is pending.
func reasons(w World, name string) string {
	for _, o := range w.State().Objects {
		if strings.HasPrefix(o.Name, name) {
			return strings.Join(o.Reasons, "\n")
		}
	}
	return "no such object"
}

func TestPendingObjectsHaveAReason(t *testing.T) {
	d := newStepped(t)
	do(t, d, "create claim data 64Mi", "create pod first data on=node-1", "fail driver Internal ControllerPublishVolume", "until patch/status attacher")
	if got := reasons(d, "attachment"); !strings.Contains(got, "Internal") {
		t.Errorf("the attachment that failed: %q", got)
	}
	do(t, d, "wait pod first Running", "create pod second data on=node-2", "rest")
	if got := reasons(d, "pod default/second"); !strings.Contains(got, "FailedAttachVolume: Multi-Attach error for volume") {
		t.Errorf("the pod that waits: %q", got)
	}
	for _, name := range []string{"attachment", "pod default/first", "claim default/data"} {
		if got := reasons(d, name); got != "" {
			t.Errorf("%s: %q, want no reason", name, got)
		}
	}
	do(t, d, "delete pod first", "wait pod second Running")
	if got := reasons(d, "pod default/second"); got != "" {
		t.Errorf("the pod that waits no longer: %q", got)
	}
}

// TestSavedRequestsReplayTheSameWorld sends requests of all kinds, and repeats the saved operations.
func TestSavedRequestsReplayTheSameWorld(t *testing.T) {
	d := newStepped(t)
	client := clientOf(t, d)
	send := func(method, path, media, body string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		r.Header.Set("User-Agent", "kubectl/v1.36.0 (linux/amd64)")
		if d.ServeHTTP(w, r); w.Code != want {
			t.Fatalf("%s %s: %d: %s", method, path, w.Code, w.Body)
		}
	}
	const (
		claims = "/api/v1/namespaces/default/persistentvolumeclaims"
		pods   = "/api/v1/namespaces/default/pods"
		asJSON = "application/json"
	)
	claim := `{
  "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "data", "annotations": {"note": "two\nlines"}},
  "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
}`
	send("POST", claims+"?fieldManager=kubectl-create&fieldValidation=Strict", asJSON, claim, 201)
	send("POST", claims, asJSON, claim, 409)
	do(t, d, "step 3")
	apply := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata: {a: b}\n"
	send("PATCH", "/api/v1/namespaces/default/configmaps/c?fieldManager=me", "application/apply-patch+yaml", apply, 201)
	send("PATCH", claims+"/data", "application/strategic-merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`, 200)
	send("PATCH", claims+"/data", "application/json-patch+json", `[{"op":"test","path":"/metadata/name","value":"other"}]`, 422)
	send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", asJSON, `{"apiVersion":"apiextensions.k8s.io/v1",
		"kind":"CustomResourceDefinition","metadata":{"name":"cats.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"kind":"Cat","plural":"cats"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, 201)
	send("POST", "/apis/example.com/v1/namespaces/default/cats", asJSON, `{"apiVersion":"example.com/v1","kind":"Cat","metadata":{"generateName":"tom-"}}`, 201)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	do(t, d, "rest")
	send("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", asJSON, `{"spec":{}}`, 201)
	recorded := len(d.Ops())
	send("POST", pods+"/web/exec?command=ls", asJSON, "", 405)
	send("POST", "/api/v1/namespaces/default/cats", asJSON, "{}", 404)
	send("POST", claims, asJSON, "{", 400)
	send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asJSON, `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, 201)
	if got := len(d.Ops()); got != recorded {
		t.Errorf("requests without effect are recorded: %q", d.Ops()[recorded:])
	}
	send("DELETE", pods+"/web", asJSON, `{"gracePeriodSeconds":0}`, 200)
	send("DELETE", claims, asJSON, "", 200)
	do(t, d, "rest")
	want, state := d.world.session.Log().Text(), d.world.session.StateTable()
	if want == "" || stateOf(d, "claim default/data") != "" {
		t.Errorf("the claim is %q", stateOf(d, "claim default/data"))
	}
	saved := strings.Join(d.Ops(), "\n") + "\n"
	if _, err := d.Load(saved); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.world.session.Log().Text()); diff != "" {
		t.Errorf("after Load: %s", diff)
	}
	if got := d.world.session.StateTable(); got != state {
		t.Errorf("state\n%s, want\n%s", got, state)
	}
	if got := strings.Join(d.Ops(), "\n") + "\n"; got != saved {
		t.Errorf("saved again:\n%s", cmp.Diff(saved, got))
	}
	for line := range strings.Lines(d.State().Controls.Story) {
		if strings.HasPrefix(line, "> request ") && len(line) > 120 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

func TestErrorsOfLoadNameTheLine(t *testing.T) {
	d := newStepped(t)
	for text, want := range map[string]string{
		"nodes: 1\ncreate claim data 64Mi\nstep 0\n": `line 3: "step 0": `, "nodes: 1\nnodes: 0\nstep\n": `line 2: nodes: "0": `,
	} {
		if _, err := d.Load(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
