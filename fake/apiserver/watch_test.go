package apiserver_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestFirstEventOfAWatch checks watches that end at once, or that begin with an error.
func TestFirstEventOfAWatch(t *testing.T) {
	t.Parallel()
	s := newServer()
	h := newHandler(s)
	for range 3 {
		testcheck.Must(s.Client(direct).CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "a"}}, metav1.CreateOptions{}))
	}
	s.Compact()
	const path = "/api/v1/namespaces?watch=1"
	tests := []struct{ name, target, accept, contentType, want string }{
		{
			"too old", path + "&resourceVersion=1", "", "200 application/json",
			`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"too old resource version: 1 (7)","reason":"Expired","code":410}}` + "\n",
		},
		{
			"no number", path + "&resourceVersion=abc", "", "500 application/json",
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":` +
				`"resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax","code":500}` + "\n",
		},
		{
			"in YAML", path, "application/yaml", "406 application/yaml",
			"apiVersion: v1\ncode: 406\nkind: Status\nmessage: 'only the following media types are accepted: " +
				"application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch'\nmetadata: {}\n" +
				"reason: NotAcceptable\nstatus: Failure\n",
		},
		{"from now on", path + "&resourceVersion=7&timeoutSeconds=1", "", "200 application/json", ""},
		{
			"of another name", "/api/v1/watch/namespaces/default?fieldSelector=metadata.name=x", "",
			"400 application/json",
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":` +
				`"fieldSelector metadata.name doesn't match requested name","reason":"BadRequest","code":400}` + "\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ask(t.Context(), h, "GET", test.target, "", "Accept", test.accept)
			if diff := cmp.Diff(test.want, got.body); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if is := itoa(got.code) + " " + got.header.Get("Content-Type"); is != test.contentType {
				t.Errorf("got %s, want %s", is, test.contentType)
			}
		})
	}
}

// TestProtobufEventsAreFramed decodes a watch in protobuf: four bytes of length, then a WatchEvent.
func TestProtobufEventsAreFramed(t *testing.T) {
	t.Parallel()
	r := askEvents(t, newHandler(newServer()), 1, "/api/v1/watch/namespaces/default",
		"application/vnd.kubernetes.protobuf;stream=watch")
	if want := "application/vnd.kubernetes.protobuf;stream=watch"; r.header.Get("Content-Type") != want {
		t.Errorf("content type: got %q, want %q", r.header.Get("Content-Type"), want)
	}
	body := []byte(r.body)
	if size := binary.BigEndian.Uint32(body); int(size) != len(body)-4 {
		t.Fatalf("length: got %d of %d bytes", size, len(body))
	}
	var e metav1.WatchEvent
	if err := e.Unmarshal(body[4:]); err != nil {
		t.Fatal(err)
	}
	if e.Type != "ADDED" || !strings.HasPrefix(string(e.Object.Raw), "k8s\x00") {
		t.Errorf("got %s of %q", e.Type, e.Object.Raw)
	}
}

// TestEndsOfAWatch ends watches in every way, and then checks that no goroutine and no slot leaks.
func TestEndsOfAWatch(t *testing.T) {
	for _, by := range transports() {
		t.Run(by.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			t.Run("", func(t *testing.T) {
				cfg := by.open(t, newServer())
				client := kubernetes.NewForConfigOrDie(cfg)
				maps := client.CoreV1().ConfigMaps("default")
				stopped := testcheck.Must(maps.Watch(t.Context(), metav1.ListOptions{}))
				stopped.Stop()
				ctx, cancel := context.WithCancel(t.Context())
				cancelled := testcheck.Must(maps.Watch(ctx, metav1.ListOptions{}))
				cancel()
				timed := testcheck.Must(maps.Watch(t.Context(),
					metav1.ListOptions{TimeoutSeconds: new(int64(1))}))
				for _, w := range []watch.Interface{stopped, cancelled, timed} {
					for e := range w.ResultChan() { // until it is closed
						t.Logf("%s %v", e.Type, e.Object)
					}
				}
			})
			limit := time.After(time.Minute) // only if it fails
			for runtime.NumGoroutine() > before {
				select {
				case <-limit:
					stacks := make([]byte, 1<<20)
					t.Fatalf("goroutines: got %d, want %d\n%s", runtime.NumGoroutine(), before,
						stacks[:runtime.Stack(stacks, true)])
				default:
					runtime.Gosched()
				}
			}
		})
	}
}

// TestWatchesAreBounded opens one watch too many, and another once one has ended.
func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	h := apiserver.NewHandler(newServer(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return direct }, WatchesMax: 1, BodyBytesMax: 10,
	})
	srv := httptest.NewServer(h)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	req := testcheck.Must(http.NewRequestWithContext(ctx, "GET", srv.URL+"/api/v1/watch/namespaces", nil))
	first := testcheck.Must(http.DefaultTransport.RoundTrip(req))
	line := testcheck.Must(bufio.NewReader(first.Body).ReadString('\n'))
	if !strings.HasPrefix(line, `{"type":"ADDED"`) {
		t.Errorf("got %s", line)
	}
	second := ask(t.Context(), h, "GET", "/api/v1/watch/namespaces", "")
	if got := second.status(t); second.code != 429 || second.header.Get("Retry-After") != "1" ||
		got.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("the second: got %d %v", second.code, got)
	}
	cancel()
	_, _ = io.Copy(io.Discard, first.Body)
	for ask(t.Context(), h, "GET", "/api/v1/watch/namespaces?timeoutSeconds=1", "").code == 429 {
		runtime.Gosched() // until the server has noticed
	}
	long := ask(t.Context(), h, "POST", "/api/v1/namespaces", strings.Repeat("x", 11))
	if got := long.status(t); long.code != 413 || got.Message != "Request entity too large: limit is 10" {
		t.Errorf("a long body: got %d %v", long.code, got)
	}
}

// TestARequestWhoseContextEndedFails checks that the request fails without effect.
func TestARequestWhoseContextEndedFails(t *testing.T) {
	s := newServer()
	client := kubernetes.NewForConfigOrDie(apiserver.NewConfig(s, direct))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, newClaim("a"), metav1.CreateOptions{})
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("got %v", err)
	}
	if got := s.List("persistentvolumeclaims"); len(got) != 0 {
		t.Errorf("left: %d claims", len(got))
	}
}
