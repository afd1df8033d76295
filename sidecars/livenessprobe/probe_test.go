package livenessprobe_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/volsim/volsim/internal/testcheck"
	csiplugin "github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/livenessprobe"
)

// identity is a driver whose Probe is scripted.
type identity struct {
	csi.UnimplementedIdentityServer
	probe func(ctx context.Context) (*csi.ProbeResponse, error)
}

func (i identity) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return i.probe(ctx)
}

// direct returns a connection without a socket.
func direct(server csi.IdentityServer, err error) func() (grpc.ClientConnInterface, func() error, error) {
	conn := csiplugin.Direct(func(r grpc.ServiceRegistrar) { csi.RegisterIdentityServer(r, server) })
	return func() (grpc.ClientConnInterface, func() error, error) { return conn, func() error { return nil }, err }
}

func get(handler http.Handler, path string) (code int, body string) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestProbe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		probe func(ctx context.Context) (*csi.ProbeResponse, error)
		dial  error
		code  int
		body  string
	}{
		{
			name: "it does not say whether it is ready", code: http.StatusOK, body: "ok",
			probe: func(context.Context) (*csi.ProbeResponse, error) { return &csi.ProbeResponse{}, nil },
		},
		{
			name: "ready", code: http.StatusOK, body: "ok",
			probe: func(context.Context) (*csi.ProbeResponse, error) {
				return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
			},
		},
		{
			name: "not ready", code: http.StatusInternalServerError, body: "driver responded but is not ready",
			probe: func(context.Context) (*csi.ProbeResponse, error) {
				return &csi.ProbeResponse{Ready: wrapperspb.Bool(false)}, nil
			},
		},
		{
			name: "it fails", code: http.StatusInternalServerError,
			body: "rpc error: code = FailedPrecondition desc = no disk",
			probe: func(context.Context) (*csi.ProbeResponse, error) {
				return nil, status.Error(codes.FailedPrecondition, "no disk")
			},
		},
		{
			name: "it does not answer", code: http.StatusInternalServerError,
			body: "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
			probe: func(ctx context.Context) (*csi.ProbeResponse, error) {
				<-ctx.Done()
				return nil, status.FromContextError(ctx.Err()).Err()
			},
		},
		{name: "no connection", dial: errors.New("no socket"), code: http.StatusInternalServerError, body: "no socket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			probe := livenessprobe.New(direct(identity{probe: tt.probe}, tt.dial), 10*time.Millisecond)
			code, body := get(probe, "/healthz")
			testcheck.Equal(t, "code", tt.code, code)
			testcheck.Equal(t, "body", tt.body, body)
			code, _ = get(probe, "/")
			testcheck.Equal(t, "code of another path", http.StatusNotFound, code)
		})
	}
}

// TestSocketThatIsGone probes a driver at a socket, and again when the socket has been removed while
// the driver still runs.
func TestSocketThatIsGone(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "csi.sock")
	listener := testcheck.Must(net.Listen("unix", socket))
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{probe: func(context.Context) (*csi.ProbeResponse, error) {
		return &csi.ProbeResponse{}, nil
	}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		testcheck.NoError(t, <-served)
	})
	probe := livenessprobe.New(func() (grpc.ClientConnInterface, func() error, error) {
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		return conn, conn.Close, err
	}, 0)
	code, body := get(probe, "/healthz")
	testcheck.Equal(t, "code", http.StatusOK, code)
	testcheck.Equal(t, "body", "ok", body)
	testcheck.NoError(t, os.Remove(socket))
	code, _ = get(probe, "/healthz")
	testcheck.Equal(t, "code without the socket", http.StatusInternalServerError, code)
}
