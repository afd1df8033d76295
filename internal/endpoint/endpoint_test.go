package endpoint_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// A slowHandler answers after a time of its process.
type slowHandler struct {
	process *sim.Process
	delay   time.Duration
}

// ServeHTTP answers with the path.
func (h slowHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.process.Sleep(h.delay)
	w.Header().Set("X", "1")
	w.WriteHeader(http.StatusTeapot)
	_, _ = io.WriteString(w, req.URL.Path)
}

// send sends a request from a task of a client's process and returns the response or its error, or "" after a minute.
func send(t *testing.T, host *sim.Stepped, e *endpoint.Endpoint) string {
	t.Helper()
	client, got := host.Process("client"), ""
	client.Spawn("send", func(ctx context.Context) {
		x := e.Send(testcheck.Must(http.NewRequestWithContext(ctx, http.MethodGet, "/path", nil)), client.Wake)
		if client.Wait("answer", time.Minute, x.Done) {
			resp, err := x.Response()
			if err != nil {
				got = err.Error()
				return
			}
			got = resp.Status + resp.Header.Get("X") + string(testcheck.Must(io.ReadAll(resp.Body)))
		}
	})
	testcheck.NoError(t, host.Run())
	return got
}

func TestEndpointAnswers(t *testing.T) {
	t.Parallel()
	const answered = "418 I'm a teapot1/path"
	handler := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X", "1")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, req.URL.Path)
	}
	tests := []struct {
		name  string
		start func(host *sim.Stepped, e *endpoint.Endpoint)
		want  string
	}{
		{"at once", nil, answered},
		{"by a process", func(host *sim.Stepped, e *endpoint.Endpoint) {
			p := host.Process("server")
			e.Serve(p, slowHandler{p, 59 * time.Second})
		}, answered},
		{"too slow", func(host *sim.Stepped, e *endpoint.Endpoint) {
			p := host.Process("server")
			e.Serve(p, slowHandler{p, 61 * time.Second})
		}, ""},
		{"by a process that crashed", func(host *sim.Stepped, e *endpoint.Endpoint) {
			p := host.Process("server")
			e.Serve(p, slowHandler{p, time.Second})
			host.Crash(p)
		}, "connect: connection refused"},
		{"by a process that crashes meanwhile", func(host *sim.Stepped, e *endpoint.Endpoint) {
			p, killer := host.Process("server"), host.Process("killer")
			e.Serve(p, slowHandler{p, 30 * time.Second})
			killer.Spawn("kill", func(context.Context) { killer.Sleep(time.Second); host.Crash(p) })
		}, "EOF"},
		{"by the process that replaces a crashed one", func(host *sim.Stepped, e *endpoint.Endpoint) {
			p := host.Process("server")
			e.Serve(p, slowHandler{p, time.Second})
			host.Crash(p)
			p = host.Process("server")
			e.Serve(p, slowHandler{p, time.Second})
		}, answered},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host := sim.NewStepped(sim.SteppedConfig{})
			e := endpoint.New(http.HandlerFunc(handler))
			if tt.start != nil {
				tt.start(host, e)
			}
			if got := send(t, host, e); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRequestThatIsNotBegun crashes a process that has received a request and has not begun it. Before it serves, and
// afterwards, requests are refused.
func TestRequestThatIsNotBegun(t *testing.T) {
	t.Parallel()
	host, e := sim.NewStepped(sim.SteppedConfig{}), endpoint.New(nil)
	woken := 0
	send := func() *endpoint.Exchange {
		return e.Send(httptest.NewRequest(http.MethodGet, "/", nil), func() { woken++ })
	}
	before := send()
	p := host.Process("server")
	e.Serve(p, http.NotFoundHandler())
	waiting := send()
	if resp, err := waiting.Response(); waiting.Done() || resp != nil || err != nil {
		t.Errorf("answered before the process runs: %v, %v", resp, err)
	}
	host.Crash(p)
	after := send()
	for _, each := range []struct {
		name string
		*endpoint.Exchange
		want error
	}{{"before", before, endpoint.ErrRefused}, {"waiting", waiting, io.EOF}, {"after", after, endpoint.ErrRefused}} {
		if resp, err := each.Response(); !each.Done() || resp != nil || !errors.Is(err, each.want) {
			t.Errorf("%s: done %v, %v, %v, want %v", each.name, each.Done(), resp, err, each.want)
		}
	}
	testcheck.Equal(t, "calls of wake", 3, woken)
}

// TestResponseOfHTTPServer checks that a response is that of a real server.
func TestResponseOfHTTPServer(t *testing.T) {
	t.Parallel()
	for _, handler := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) {},
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") },
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "late")
		},
	} {
		server := httptest.NewServer(handler)
		want := testcheck.Must(server.Client().Get(server.URL)) //nolint:noctx // a test
		got := testcheck.Must(endpoint.New(handler).Send(httptest.NewRequest(http.MethodGet, "/", nil), nil).Response())
		a, b := testcheck.Must(io.ReadAll(want.Body)), testcheck.Must(io.ReadAll(got.Body))
		if want.Status != got.Status || string(a) != string(b) || want.ContentLength != got.ContentLength {
			t.Errorf("got %q with %q, want %q with %q", got.Status, b, want.Status, a)
		}
		server.Close()
	}
}
