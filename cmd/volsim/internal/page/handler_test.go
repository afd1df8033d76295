package page

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
)

// A visitor is a headless browser.
type visitor struct {
	*http.Client
	t   *testing.T
	url string
}

// open serves a world and opens its page.
func open(t *testing.T, world World, onNewLink func(string)) (*visitor, *Listener) {
	t.Helper()
	l, err := Listen(Config{World: world, OnNewLink: onNewLink})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	v := newVisitor(t, l)
	if code, body := v.get(strings.TrimPrefix(l.URL(), v.url)); code != http.StatusOK || !strings.Contains(body, `url=/"`) {
		t.Fatalf("open link: status %d: %s", code, body)
	}
	return v, l
}

// newVisitor returns a visitor that has not opened the link.
func newVisitor(t *testing.T, l *Listener) *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := strings.Cut(l.URL(), "/?")
	return &visitor{&http.Client{Jar: jar}, t, url}
}

func (v *visitor) get(path string) (code int, body string) { return v.send(http.MethodGet, path, "") }

func (v *visitor) send(method, path, body string, header ...string) (code int, answer string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			for _, c := range v.Jar.Cookies(&url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/"}) { // the jar selects cookies by host
				r.AddCookie(c)
			}
		}
		r.Header.Set(header[i], header[i+1])
	}
	reply, err := v.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer reply.Body.Close()
	all, err := io.ReadAll(reply.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if reply.Header.Get("Content-Security-Policy") != contentSecurityPolicy {
		v.t.Errorf("%s: Content-Security-Policy %q", path, reply.Header.Get("Content-Security-Policy"))
	}
	return reply.StatusCode, string(all)
}

func (v *visitor) state() State {
	v.t.Helper()
	code, body := v.get("/state")
	var s State
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusOK {
		v.t.Fatalf("%d: %v: %s", code, err, body)
	}
	return s
}

func TestLinkOpensPageInOneBrowser(t *testing.T) {
	var links []string
	v, l := open(t, newStepped(t), func(url string) { links = append(links, url) })
	for path, want := range map[string]string{"/": "<h1>volsim</h1>", "/page.js": "EventSource", "/page.css": "color-scheme"} {
		if code, body := v.get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, want a body with %s", path, code, want)
		}
	}
	if len(links) != 1 || links[0] != l.URL() {
		t.Fatalf("announced links %v, want %s", links, l.URL())
	}
	if code, _ := v.get(strings.TrimPrefix(l.URL(), v.url)); code != http.StatusOK || len(links) != 1 {
		t.Errorf("an admitted browser redeemed a link: %d, %v", code, links)
	}
	other := newVisitor(t, l)
	for _, path := range []string{"/", "/state", "/page.js", "/changes", "/?token=", "/?token=0000"} {
		if code, body := other.get(path); code != http.StatusForbidden || !strings.Contains(body, "open the latest link printed by volsim serve") {
			t.Errorf("%s without the link: status %d: %s", path, code, body)
		}
	}
	if code, _ := other.send(http.MethodPost, "/do", "step"); code != http.StatusForbidden {
		t.Errorf("operation without the link: status %d", code)
	}
	link := strings.TrimPrefix(l.URL(), other.url)
	if code, _ := other.get(link); code != http.StatusOK {
		t.Errorf("second link: status %d", code)
	}
	if code, _ := newVisitor(t, l).get(link); code != http.StatusForbidden {
		t.Errorf("used link: status %d", code)
	}
}

func TestPageRequiresLoopbackHost(t *testing.T) {
	v, l := open(t, newStepped(t), nil)
	for host, want := range map[string]int{
		"127.0.0.1": 200, "localhost:8080": 200, "[::1]:1": 200, "::1": 200, "volsim.example": 403, "volsim.example:80": 403,
		"127.0.0.1.example": 403, "localhost.example": 403, "192.0.2.1": 403,
	} {
		if code, _ := v.send(http.MethodGet, "/state", "", "Host", host); code != want {
			t.Errorf("host %s: status %d, want %d", host, code, want)
		}
	}
	for _, path := range []string{"/", "/state", "/changes", "/diagram.svg", "/operations.txt"} {
		code, body := v.send(http.MethodGet, path, "", "Origin", "http://a.example")
		if code != http.StatusForbidden || body != "access denied: a page of \"http://a.example\" may not use this server\n" {
			t.Errorf("%s for another origin: status %d, %s", path, code, body)
		}
	}
	for _, path := range []string{"/do", "/undo", "/reset", "/load"} {
		if code, _ := v.send(http.MethodPost, path, "rest", "Origin", "null"); code != http.StatusForbidden {
			t.Errorf("%s for another origin: status %d", path, code)
		}
		if code, _ := v.send(http.MethodPost, path, "rest", "Host", "a.example", "Origin", "http://a.example"); code != http.StatusForbidden {
			t.Errorf("%s of a rebound name: status %d", path, code)
		}
	}
	if code, body := v.send(http.MethodGet, strings.TrimPrefix(l.URL(), v.url), "", "Host", "a.example"); code != http.StatusForbidden {
		t.Errorf("a link for a rebound name: status %d, %s", code, body)
	}
	if code, _ := v.send(http.MethodPost, "/do", "rest", "Sec-Fetch-Site", "same-site"); code != http.StatusForbidden {
		t.Errorf("operation from another local page: status %d", code)
	}
	if code, _ := v.send(http.MethodPost, "/do", "rest", "Origin", "http://127.0.0.1:1"); code != http.StatusForbidden {
		t.Errorf("operation from another origin: status %d", code)
	}
}

// TestPageHasOtherNames: those of its configuration.
func TestPageHasOtherNames(t *testing.T) {
	l, err := Listen(Config{World: newStepped(t), Names: []string{"dev.example"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for host, want := range map[string]string{"dev.example:80": "open the latest link", "a.example": "this server is not"} {
		if code, body := newVisitor(t, l).send(http.MethodGet, "/state", "", "Host", host); code != http.StatusForbidden || !strings.Contains(body, want) {
			t.Errorf("%s: status %d: %s", host, code, body)
		}
	}
}

func TestListenRejectsNonLoopbackAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "nowhere", ":0", "127.0.0.1", "example.org:80"} {
		l, err := Listen(Config{World: newStepped(t), Addr: addr})
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "such as 127.0.0.1:8080") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestPageExecutesOperations(t *testing.T) {
	v, _ := open(t, newStepped(t), nil)
	var result Result
	for _, op := range []string{"create claim data 64Mi", "step"} {
		code, body := v.send(http.MethodPost, "/do", op)
		if err := json.Unmarshal([]byte(body), &result); err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d: %v: %s", op, code, err, body)
		}
	}
	if !result.Advanced || !strings.Contains(result.Message, "sees claim default/data added") {
		t.Errorf("step: %+v", result)
	}
	if got := v.state(); len(got.Controls.Ops) != 2 {
		t.Errorf("operations: %v", got.Controls.Ops)
	}
	if code, body := v.get("/operations.txt"); code != http.StatusOK || body != "nodes: 2\ncreate claim data 64Mi\nstep\n" {
		t.Errorf("operations.txt: %d %q", code, body)
	}
	for i, path := range []string{"/undo", "/reset"} {
		if code, body := v.send(http.MethodPost, path, ""); code != http.StatusOK {
			t.Errorf("%s: %d: %s", path, code, body)
		}
		if got := len(v.state().Controls.Ops); got != 1-i {
			t.Errorf("after %s: %d operations remain", path, got)
		}
	}
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/do", "nonsense", 422, `unknown operation "nonsense"`},
		{"POST", "/do", strings.Repeat("x", 5000), 422, "at most 4096 bytes"},
		{"POST", "/undo", "", 422, "nothing to undo"},
		{"GET", "/diagram.svg?records=many", "", 422, "want a number"},
		{"GET", "/diagram.svg?records=0", "", 422, "want a number"},
		{"GET", "/diagram.svg?width=5000", "", 422, "want a number"},
		{"GET", "/do", "", 404, ""},
		{"GET", "/nothing", "", 404, ""},
		{"PUT", "/do", "", 405, ""},
	} {
		if code, body := v.send(tt.method, tt.path, tt.body); code != tt.code || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: %d: %s, want %d and %q", tt.method, tt.path, code, body, tt.code, tt.want)
		}
	}
}

func TestTheDiagramGrows(t *testing.T) {
	d := newStepped(t)
	v, _ := open(t, d, nil)
	draw := func(query string) string {
		code, body := v.get("/diagram.svg" + query)
		if code != http.StatusOK {
			t.Fatalf("%s: %d: %s", query, code, body)
		}
		for decoder := xml.NewDecoder(strings.NewReader(body)); ; {
			if _, err := decoder.Token(); err == io.EOF {
				return body
			} else if err != nil {
				t.Fatalf("%s is no XML: %v", query, err)
			}
		}
	}
	if strings.Contains(draw(""), "registers node-1") {
		t.Error("the setup is drawn")
	}
	do(t, d, "create claim data 64Mi", "create claim other 1Gi", "rest")
	all := draw("?records=2000")
	for _, want := range []string{"claim default/data", "claim default/other", "provisioner"} {
		if !strings.Contains(all, want) {
			t.Errorf("the diagram has no %s", want)
		}
	}
	if one := draw("?about=persistentvolumeclaims/default/data"); strings.Contains(one, "claim default/other") || !strings.Contains(one, "claim default/data") {
		t.Error("the diagram of one claim shows another one")
	}
	if last := draw("?records=10"); strings.Contains(last, "creates claim default/data of 64Mi") {
		t.Error("earlier records are drawn")
	}
	for _, lane := range []string{">user<", ">pvcontroller<", ">provisioner<", ">driver<"} {
		if last := draw("?records=1"); !strings.Contains(last, lane) {
			t.Errorf("the diagram of the last action has no lane %s", lane)
		}
	}
	if small := draw("?width=400"); small == draw("") {
		t.Error("?width=400 has no effect")
	}
	if tasks := draw("?tasks=true"); tasks == draw("") {
		t.Error("tasks have no separate lanes")
	}
}

func TestLateBrowserCatchesUp(t *testing.T) {
	d := newStepped(t)
	v, l := open(t, d, nil)
	do(t, d, "create claim data 64Mi", "step 3")
	reply, err := v.Get(v.url + "/changes")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	next := func() string {
		for lines.Scan() {
			if number, is := strings.CutPrefix(lines.Text(), "data: "); is {
				return number
			}
		}
		return "the end"
	}
	if got := next(); got != "2" || v.state().Version != 2 {
		t.Errorf("after two operations: version %s, state version %d", got, v.state().Version)
	}
	do(t, d, "step")
	if got := next(); got != "3" {
		t.Errorf("after another operation: version %s", got)
	}
	go func() { _ = l.Close() }()
	if got := next(); got != "the end" {
		t.Errorf("after the server ended: version %s", got)
	}
}

// TestLiveWorld: a live world takes events and acts, and cannot be stepped.
func TestLiveWorld(t *testing.T) {
	c, err := cluster.New(cluster.Config{Devices: cluster.Array, Records: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := NewLive(c)
	v, _ := open(t, live, nil)
	before := v.state()
	ctx := context.Background()
	if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
		t.Fatal(err)
	}
	after := v.state()
	if after.Controls != nil || after.Version <= before.Version || !strings.HasPrefix(stateOf(live, "claim default/data"), "Bound to") {
		t.Errorf("state %+v", after)
	}
	if len(after.Events) == 0 || after.Events[len(after.Events)-1].Object != "persistentvolumeclaim data" {
		t.Errorf("events %+v", after.Events)
	}
	if code, body := v.get("/diagram.svg"); code != http.StatusOK || !strings.Contains(body, "claim default/data") {
		t.Errorf("the diagram: %d: %s", code, body)
	}
	for _, path := range []string{"/do", "/undo", "/reset", "/load"} {
		if code, body := v.send(http.MethodPost, path, "step"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "volsim serve --by-hand") {
			t.Errorf("%s: %d: %s", path, code, body)
		}
	}
	do := func(op string, code int, contains string) {
		t.Helper()
		if got, body := v.send(http.MethodPost, "/do", op); got != code || !strings.Contains(body, contains) {
			t.Errorf("%s: %d: %s", op, got, body)
		}
	}
	operations := func(target string) string {
		for _, each := range v.state().Targets {
			if each.Name == target {
				return strings.Join(each.Ops, ", ")
			}
		}
		return "no such target"
	}
	if got := operations("kubelet(node-1)"); got != "crash kubelet(node-1), stop kubelet(node-1)" {
		t.Errorf("operations of the kubelet: %s", got)
	}
	do("stop kubelet(node-1)", http.StatusOK, "stop kubelet(node-1)")
	do("stop kubelet(node-1)", http.StatusUnprocessableEntity, "not possible now")
	if got := operations("kubelet(node-1)"); got != "start kubelet(node-1)" {
		t.Errorf("operations of the stopped kubelet: %s", got)
	}
	do("create pod web data on=node-1", http.StatusOK, "create pod web")
	do("start kubelet(node-1)", http.StatusOK, "")
	do("wait pod web Running", http.StatusOK, "")
	do("partition node-1", http.StatusOK, "")
	do("restore node-1", http.StatusOK, "")
	do("pass 5m", http.StatusUnprocessableEntity, "a live world has no settable clock")
}
