package external

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"testing"

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
	return c.requests
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
	if len(dialer.Subprotocols) == 0 {
		dialer.Subprotocols = req.Header["Sec-WebSocket-Protocol"]
	}
	header := http.Header{}
	to := url.URL{Scheme: "ws", Host: "volsim.invalid", Path: req.URL.Path, RawQuery: req.URL.RawQuery}
	conn, resp, err := dialer.DialContext(req.Context(), to.String(), header)
	if err != nil {
		return nil, err
	}
	w.Conn = conn
	return resp, nil
}
