package livenessprobe

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// defaultTimeout is how long a probe may take, unless New gets another timeout.
const defaultTimeout = 3 * time.Second

// New returns the handler. Each probe calls dial for a connection to the driver and then closes it, so
// that a driver whose socket is gone is found. dial may be called concurrently; a *grpc.ClientConn has
// such a close. A timeout of 0 means 3 s.
//
// Differs: upstream's default timeout is one second.
//
// Upstream: livenessprobe cmd/livenessprobe healthProbe.checkProbe.
func New(dial func() (conn grpc.ClientConnInterface, closeConn func() error, err error), timeout time.Duration) http.Handler {
	p := prober{dial, cmp.Or(timeout, defaultTimeout)}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if problem := p.probe(r.Context()); problem != "" {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(problem)) // an error means that the client disconnected
			return
		}
		_, _ = w.Write([]byte("ok"))
	})
	return mux
}

type prober struct {
	dial    func() (grpc.ClientConnInterface, func() error, error)
	timeout time.Duration
}

// probe probes the driver. It returns "" if it is ready, or what is wrong.
func (p prober) probe(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	conn, closeConn, err := p.dial()
	if err != nil {
		return err.Error()
	}
	defer func() { _ = closeConn() }()
	response, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{})
	switch ready := response.GetReady(); {
	case err != nil:
		return err.Error()
	case ready != nil && !ready.GetValue(): // without a value it is ready
		return "driver responded but is not ready"
	default:
		return ""
	}
}
