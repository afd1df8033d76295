package extender_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/extendertest"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/scheduler/internal/extender"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// accepting accepts all nodes.
var accepting = &extendertest.Case{Ask: "filter", Names: true, Body: `{"NodeNames": ["a", "b"]}`}

const accepts = "a+1 b+1"

// TestConnection checks requests over a network.
func TestConnection(t *testing.T) {
	t.Parallel()
	plain, secure := httptest.NewServer(accepting), httptest.NewTLSServer(accepting)
	defer plain.Close()
	defer secure.Close()
	silent := httptest.NewServer(http.HandlerFunc(waitForClient))
	defer silent.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	restricted := httptest.NewUnstartedServer(accepting)
	restricted.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert} //nolint:gosec // a test
	restricted.StartTLS()
	defer restricted.Close()
	ca, key := pemOf(t, secure)
	file := filepath.Join(t.TempDir(), "ca.crt")
	testcheck.NoError(t, os.WriteFile(file, ca, 0o600))

	tests := []struct {
		name   string
		server *httptest.Server
		cfg    configv1.Extender
		want   string // "…" stands for any text
	}{
		{"HTTP", plain, configv1.Extender{}, accepts},
		{"a prefix with a slash", plain, configv1.Extender{URLPrefix: plain.URL + "/"}, accepts},
		{"no server", nil, configv1.Extender{URLPrefix: "http://127.0.0.1:1"}, `error: Post "URL/filter": dial tcp … connect: connection refused`},
		{
			"no answer in time", silent,
			configv1.Extender{HTTPTimeout: metav1.Duration{Duration: time.Millisecond}},
			`error: Post "URL/filter": … (Client.Timeout exceeded while awaiting headers)`,
		},
		{"cut off", cut, configv1.Extender{}, `error: Post "URL/filter": EOF`},
		{"HTTPS that is not verified", secure, configv1.Extender{EnableHTTPS: true}, accepts},
		{"HTTPS without enableHTTPS", secure, configv1.Extender{}, `error: Post "URL/filter": tls: failed to verify certificate: …`},
		{"HTTPS with the CA", secure, configv1.Extender{EnableHTTPS: true, TLSConfig: &configv1.ExtenderTLSConfig{CAData: ca}}, accepts},
		{"HTTPS with a file", secure, configv1.Extender{EnableHTTPS: true, TLSConfig: &configv1.ExtenderTLSConfig{CAFile: file}}, accepts},
		{
			"a missing file", secure,
			configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{CAFile: file + "2"}},
			`error: open …ca.crt2: no such file or directory`,
		},
		{
			"insecure and a CA", secure,
			configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{Insecure: true, CAData: ca}},
			"error: specifying a root certificates file with the insecure flag is not allowed",
		},
		{"another name", secure, configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{CAData: ca, ServerName: "example.com"}}, accepts},
		{
			"a wrong name", secure,
			configv1.Extender{TLSConfig: &configv1.ExtenderTLSConfig{CAData: ca, ServerName: "example.org"}},
			`error: Post "URL/filter": tls: failed to verify certificate: … not example.org`,
		},
		{"without the client's certificate", restricted, configv1.Extender{EnableHTTPS: true}, `error: Post "URL/filter": …`},
		{
			"with the client's certificate", restricted,
			configv1.Extender{EnableHTTPS: true, TLSConfig: &configv1.ExtenderTLSConfig{CertData: ca, KeyData: key}},
			accepts,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.cfg
			cfg.FilterVerb, cfg.NodeCacheCapable = "filter", true
			if cfg.URLPrefix == "" {
				cfg.URLPrefix = tt.server.URL
			}
			inLive(t, func(ctx context.Context, p *sim.Process) {
				e, err := extender.New(p, cfg, nil)
				got := ""
				if err == nil {
					got = ask(ctx, accepting, e)
				} else {
					got = "error: " + err.Error()
				}
				if !isLike(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// waitForClient does not answer. The server notices that the client has gone once the body is read.
func waitForClient(_ http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	<-req.Context().Done()
}

// isLike reports whether a text has the parts that stand before and after "…".
func isLike(text, pattern string) bool {
	before, after, wild := strings.Cut(pattern, "…")
	return text == pattern || wild && len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}

// pemOf returns the certificate and the key of a server.
func pemOf(t *testing.T, server *httptest.Server) (cert, key []byte) {
	t.Helper()
	chain := server.TLS.Certificates[0]
	private := testcheck.Must(x509.MarshalPKCS8PrivateKey(chain.PrivateKey))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// TestCloseEndsRequests checks that a live world ends while an extender does not answer.
func TestCloseEndsRequests(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(asked)
		waitForClient(nil, req)
	}))
	defer silent.Close()
	host := sim.NewLive(sim.LiveConfig{})
	p := host.Process("scheduler")
	cfg := configOf(accepting, silent.URL)
	cfg.HTTPTimeout.Duration = time.Hour
	e := testcheck.Must(extender.New(p, cfg, nil))
	p.Spawn("test", func(ctx context.Context) { ask(ctx, accepting, e) })
	host.Start()
	<-asked
	host.Close()
}

// A sleepyProgram answers after a time of its process.
type sleepyProgram struct {
	http.Handler
	process *sim.Process
	delay   time.Duration
}

// ServeHTTP sleeps before it answers.
func (s sleepyProgram) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.process.Sleep(s.delay)
	s.Handler.ServeHTTP(w, req)
}

// TestTimeout checks how long a scheduler waits for an extender with a process of its own, and that it does not wait for one
// that crashes.
func TestTimeout(t *testing.T) {
	t.Parallel()
	const tooLate = `error: Post "URL/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`
	tests := []struct {
		name           string
		timeout, delay time.Duration
		crash          bool
		after          time.Duration // of the crash
		want           string
		took           time.Duration
	}{
		{name: "by default, in time", delay: 4 * time.Second, want: accepts, took: 4 * time.Second},
		{name: "by default, too late", delay: 6 * time.Second, want: tooLate, took: 5 * time.Second},
		{name: "in time", timeout: time.Minute, delay: 6 * time.Second, want: accepts, took: 6 * time.Second},
		{name: "too late", timeout: time.Second, delay: 2 * time.Second, want: tooLate, took: time.Second},
		{name: "crashed", crash: true, want: `error: Post "URL/filter": connect: connection refused`},
		{name: "crashes meanwhile", delay: 2 * time.Second, crash: true, after: time.Second, want: `error: Post "URL/filter": EOF`, took: time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host := sim.NewStepped(sim.SteppedConfig{})
			process, at := host.Process("extender"), endpoint.New(nil)
			at.Serve(process, sleepyProgram{accepting, process, tt.delay})
			cfg := configOf(accepting, testURL)
			cfg.HTTPTimeout.Duration = tt.timeout
			switch {
			case tt.crash && tt.after == 0:
				host.Crash(process)
			case tt.crash:
				killer := host.Process("killer")
				killer.Spawn("kill", func(context.Context) { killer.Sleep(tt.after); host.Crash(process) })
			}
			inStepped(t, host, func(ctx context.Context, p *sim.Process) {
				begin := p.Now()
				got := ask(ctx, accepting, testcheck.Must(extender.New(p, cfg, at)))
				if took := p.Now().Sub(begin); got != tt.want || took != tt.took {
					t.Errorf("got %q after %v, want %q after %v", got, took, tt.want, tt.took)
				}
			})
		})
	}
}

// A faultyStrategy makes all calls fail.
type faultyStrategy struct{ fault sim.Fault }

// Decide implements sim.Strategy.
func (s faultyStrategy) Decide(d *sim.Decision) sim.Move {
	if call, ok := d.Task(0).Pending(); ok && s.fault.Applies(call) {
		return sim.Move{Fault: s.fault}
	}
	return sim.Move{}
}

// TestFaults checks that a fault of a call is an error of the connection or the server.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault sim.Fault
		want  string
		asked int
	}{
		{sim.Fault{Kind: sim.FaultDriver, Code: codes.Unavailable}, `error: Post "URL/filter": connect: connection refused`, 0},
		{sim.Fault{Kind: sim.FaultDriver, Code: codes.Internal}, "error: failed filter with extender at URL URL/filter, code 500", 0},
		{sim.Fault{Kind: sim.FaultDriverLost, Code: codes.Internal}, "error: failed filter with extender at URL URL/filter, code 500", 1},
		{sim.Fault{Kind: sim.FaultHang}, `error: Post "URL/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.fault.String(), func(t *testing.T) {
			t.Parallel()
			x := &program{}
			inStepped(t, sim.NewStepped(sim.SteppedConfig{Strategy: faultyStrategy{tt.fault}}), func(ctx context.Context, p *sim.Process) {
				got := ask(ctx, accepting, testcheck.Must(extender.New(p, configOf(accepting, testURL), endpoint.New(x))))
				if got != tt.want || len(x.asked) != tt.asked {
					t.Errorf("got %q and %d requests, want %q and %d", got, len(x.asked), tt.want, tt.asked)
				}
			})
		})
	}
}

// TestRecords checks what a trace has of each request.
func TestRecords(t *testing.T) {
	t.Parallel()
	host := sim.NewStepped(sim.SteppedConfig{})
	inStepped(t, host, func(ctx context.Context, p *sim.Process) {
		for _, a := range []*extendertest.Case{
			accepting,
			{Ask: "prioritize", Body: `[{"Host": "a", "Score": 1}]`},
			{Ask: "preempt", Body: "{}"},
			{Ask: "bind", Body: "{}"},
			{Ask: "bind", Body: "garbage"},
		} {
			ask(ctx, a, testcheck.Must(extender.New(p, configOf(a, testURL), endpoint.New(a))))
		}
	})
	want := []string{
		"ExtenderFilter extender.example/default/web read nodes=2 accepted=2",
		"ExtenderPrioritize extender.example/default/web read nodes=2 scores=1",
		"ExtenderPreempt extender.example/default/web read nodes=2 accepted=0",
		"ExtenderBind extender.example/default/web node=a",
		"ExtenderBind extender.example/default/web error: invalid character 'g' looking for beginning of value",
	}
	var got []string
	for _, r := range host.Log().Records() {
		if r.Kind == trace.KindDriver {
			words := r.Verb + " " + r.Object
			if r.Read {
				words += " read"
			}
			got = append(got, words+" "+r.Result())
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
