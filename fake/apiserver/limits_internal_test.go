package apiserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/httpserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// A limited world is a server as Listen serves it, on connections in memory.
type limitedWorld struct {
	*testing.T
	server  *fake.Server
	handler *handler
	socket  *testworld.PipeListener
}

// limited runs a test in a bubble, so that no test waits.
func limited(t *testing.T, cfg HandlerConfig, test func(w *limitedWorld)) {
	limitedBy(t, fake.Config{}, cfg, test)
}

// limitedBy is limited with the configuration of a server.
func limitedBy(t *testing.T, of fake.Config, cfg HandlerConfig, test func(w *limitedWorld)) {
	synctest.Test(t, func(t *testing.T) {
		of.Now = func() time.Time { return sim.Epoch }
		server := fake.NewServer(of)
		cfg.Caller = func(*http.Request) sim.Caller {
			return testworld.ImmediateCaller(func() time.Time { return sim.Epoch })
		}
		w := &limitedWorld{t, server, newHandler(server, cfg), nil}
		defer w.serve(nil)()
		test(w)
	})
}

// serve serves on connections in memory, by HTTP/2 if TLS is configured. The returned function ends it.
func (w *limitedWorld) serve(secured *tls.Config) (end func()) {
	w.socket = testworld.NewPipeListener()
	served := httpserver.Serve(w.socket, httpserver.Config{Handler: limitTime(w.handler), HeaderBytesMax: headerBytesMax, TLS: secured})
	return func() { testcheck.NoError(w.T, served.Close()) }
}

// dial returns a connection.
func (w *limitedWorld) dial() net.Conn {
	return w.socket.Dial()
}

// send starts to send text, and returns the connection.
func (w *limitedWorld) send(text string) net.Conn {
	c := w.dial()
	go func() { _, _ = io.WriteString(c, text) }()
	return c
}

// statusLine reads the answer until the connection ends, and returns its first line and how long it took.
func (w *limitedWorld) statusLine(c net.Conn) string {
	began := time.Now()
	all, err := io.ReadAll(c)
	testcheck.NoError(w.T, err)
	line, _, _ := strings.Cut(string(all), "\r\n")
	return fmt.Sprintf("%s after %s", line, time.Since(began).Round(time.Second))
}

// createMaps stores n config maps of 1 KiB.
func (w *limitedWorld) createMaps(n int) {
	maps := w.server.Client(sim.DirectCaller()).CoreV1().ConfigMaps("default")
	for range n {
		_, err := maps.Create(context.Background(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "m"}, Data: map[string]string{"k": strings.Repeat("x", 1<<10)},
		}, metav1.CreateOptions{})
		testcheck.NoError(w.T, err)
	}
}

// TestSlowAndLongRequestsEnd sends requests that are not complete, or too long.
func TestSlowAndLongRequestsEnd(t *testing.T) {
	long := strings.Repeat("x", headerBytesMax+8<<10)
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", " after 32s"},
		{"half a header", "GET /version HTTP/1.1\r\nHost: a\r\n", " after 32s"},
		{"half a body", "POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 504 Gateway Timeout after 1m0s"},
		{"half a body, a timeout", "POST /api/v1/namespaces?timeout=5s HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 504 Gateway Timeout after 5s"},
		{"idle after an answer", "GET /version HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK after 1m30s"},
		{"a long header", "GET /version HTTP/1.1\r\nHost: a\r\nX: " + long + "\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large after 0s"},
		{"a long path", "GET /version?" + long + " HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large after 0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limited(t, HandlerConfig{}, func(w *limitedWorld) {
				got := w.statusLine(w.send(tt.text))
				if tt.want[:5] == "HTTP/" && strings.HasSuffix(tt.want, "after 0s") {
					got = strings.Replace(got, "after 1s", "after 0s", 1) // the server waits half a second before it closes
				}
				testcheck.Equal(t, "answer", tt.want, got)
			})
		})
	}
}

// TestClientThatDoesNotReadIsCutOff: of a watch it holds one event and a place among the watches, for a minute; of a
// list, its answer.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	for _, tt := range []struct{ name, target string }{
		{"watch", "/api/v1/configmaps?watch=1"},
		{"list", "/api/v1/configmaps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limited(t, HandlerConfig{WatchesMax: 1, WatchesPerUserMax: 1, ReadingMax: 1}, func(w *limitedWorld) {
				w.createMaps(100)
				c := w.send("GET " + tt.target + " HTTP/1.1\r\nHost: a\r\n\r\n")
				line := testcheck.Must(bufio.NewReaderSize(c, 16).ReadString('\n'))
				testcheck.Equal(t, "status", "HTTP/1.1 200 OK\r\n", line)
				synctest.Wait()
				inUse := func() int64 { return w.handler.watches.n.Load() + w.handler.reading.n.Load() }
				testcheck.Equal(t, "in use", 1, inUse())
				time.Sleep(3 * time.Minute) // of the bubble
				synctest.Wait()
				testcheck.Equal(t, "in use", 0, inUse())
				testcheck.Equal(t, "watches by user", 0, len(w.handler.byUser.n))
				if rest, err := io.ReadAll(c); len(rest) > 64<<10 || err != nil {
					t.Errorf("got %d bytes, %v", len(rest), err)
				}
			})
		})
	}
}

// TestSlowReaderKeepsItsWatch: it reads an event of 1 KiB each ten seconds. The server sends 4 KiB at once.
func TestSlowReaderKeepsItsWatch(t *testing.T) {
	limited(t, HandlerConfig{}, func(w *limitedWorld) {
		w.createMaps(100)
		c := w.send("GET /api/v1/configmaps?watch=1&fieldSelector=metadata.namespace%3Ddefault HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := testcheck.Must(http.ReadResponse(bufio.NewReaderSize(c, 16), nil))
		events := bufio.NewScanner(resp.Body)
		events.Buffer(nil, 16<<10)
		for i := range 101 { // with that of kube-root-ca.crt
			if !events.Scan() {
				t.Fatalf("event %d: %v", i, events.Err())
			}
			time.Sleep(stallMax / 6) // of the bubble
		}
		testcheck.NoError(t, c.Close())
	})
}

// onVersions runs a test in a world of begin for each version of HTTP. get answers a request.
func onVersions(t *testing.T, begin func(t *testing.T, test func(w *limitedWorld)), test func(w *limitedWorld, get func(path string) *http.Response)) {
	authority := testcheck.Must(NewAuthority())
	cert, key, err := authority.NewServer("127.0.0.1")
	testcheck.NoError(t, err)
	secured := &tls.Config{Certificates: []tls.Certificate{testcheck.Must(tls.X509KeyPair(cert, key))}}
	for i, scheme := range []string{"http", "https"} {
		version := i + 1
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			begin(t, func(w *limitedWorld) {
				if version == 2 {
					defer w.serve(secured)()
				}
				transport := &http.Transport{
					DialContext:     func(context.Context, string, string) (net.Conn, error) { return w.dial(), nil },
					TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, //nolint:gosec // in memory
				}
				defer transport.CloseIdleConnections()
				test(w, func(path string) *http.Response {
					resp := testcheck.Must((&http.Client{Transport: transport}).Get(scheme + "://a" + path))
					testcheck.Equal(w.T, "version", version, resp.ProtoMajor)
					return resp
				})
			})
		})
	}
}

// TestIdleWatchIsKept: an hour without an event.
func TestIdleWatchIsKept(t *testing.T) {
	begin := func(t *testing.T, test func(w *limitedWorld)) { limited(t, HandlerConfig{}, test) }
	onVersions(t, begin, func(w *limitedWorld, get func(path string) *http.Response) {
		resp := get("/api/v1/configmaps?watch=1&fieldSelector=metadata.name!%3Dkube-root-ca.crt")
		defer resp.Body.Close()
		events := bufio.NewScanner(resp.Body)
		for range 3 {
			time.Sleep(time.Hour) // of the bubble
			w.createMaps(1)
			if !events.Scan() {
				w.Fatalf("the watch has ended: %v", events.Err())
			}
		}
	})
}
