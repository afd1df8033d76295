package external

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	wsroundtripper "k8s.io/client-go/transport/websocket"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// providerName is that of the authentication provider of the suite's kubeconfig. It does not authenticate: it
// replaces the transport.
const providerName = "volsim"

// current is the connection to the cluster of the running test.
var current *connection

func init() {
	err := rest.RegisterAuthProviderPlugin(providerName, func(string, map[string]string, rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
		return current, nil
	})
	if err != nil {
		panic(err)
	}
}

// A connection is how the suite reaches the API server of a cluster: requests in memory, and WebSockets over
// pipes.
type connection struct {
	requests http.RoundTripper
	pipes    *testworld.PipeListener
	server   *http.Server
}

// connect serves a cluster.
func connect(t *testing.T, c *cluster.Cluster) *connection {
	handler := apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return c.Host().ExternalCaller() },
	})
	conn := &connection{c.RESTConfig().Transport, testworld.NewPipeListener(), &http.Server{Handler: handler}}
	go func() {
		if err := conn.server.Serve(conn.pipes); err != http.ErrServerClosed {
			t.Error(err)
		}
	}()
	return conn
}

func (c *connection) close() error { return c.server.Close() }

// Login implements rest.AuthProvider.
func (*connection) Login() error { return nil }

// WrapTransport implements rest.AuthProvider.
func (c *connection) WrapTransport(rt http.RoundTripper) http.RoundTripper {
	if socket, ok := rt.(*wsroundtripper.RoundTripper); ok {
		return webSocket{c.pipes, socket}
	}
	return delayed{c.requests}
}

// requestTime is the time of the cluster that passes before a request that changes something, and before an event of a watch
// arrives. The suite relies on it, as on that of a network: the controllers have seen a change before the next one is
// made, and the suite has the response to a request before it sees what the controllers did about it.
const requestTime = time.Millisecond

// delayed makes requests that take time.
type delayed struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (d delayed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		time.Sleep(requestTime)
	}
	resp, err := d.RoundTripper.RoundTrip(req)
	if err == nil && req.URL.Query().Has("watch") {
		resp.Body = delayedBody{resp.Body}
	}
	return resp, err
}

// delayedBody is the body of a watch.
type delayedBody struct{ io.ReadCloser }

// Read implements io.Reader.
func (b delayedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(requestTime)
	return n, err
}

// A webSocket opens a WebSocket over a pipe.
type webSocket struct {
	pipes *testworld.PipeListener
	*wsroundtripper.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w webSocket) RoundTrip(req *http.Request) (*http.Response, error) {
	dialer := websocket.Dialer{
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return w.pipes.Dial(), nil },
		Subprotocols:   req.Header["Sec-Websocket-Protocol"],
	}
	to := url.URL{Scheme: "ws", Host: "volsim.invalid", Path: req.URL.Path, RawQuery: req.URL.RawQuery}
	conn, resp, err := dialer.DialContext(req.Context(), to.String(), nil)
	if err != nil {
		return nil, err
	}
	w.Conn = conn
	return resp, nil
}
