package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 32 * time.Second // to read the header of a request, as kube-apiserver
	idleTimeout   = 90 * time.Second // between two requests of a connection, as kube-apiserver
	closeTimeout  = 3 * time.Second  // for requests in flight, after streams were told to end
)

// A Config configures a server.
type Config struct {
	Handler        http.Handler
	HeaderBytesMax int
	TLS            *tls.Config // nil for plain HTTP
}

// A Server is a running HTTP server. Its methods are safe for concurrent use.
type Server struct {
	http   *http.Server
	cancel context.CancelFunc // ends the contexts of requests
	served chan error
}

// Serve starts serving on a listener, which it takes over. Close the server after use.
func Serve(socket net.Listener, cfg Config) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{cancel: cancel, served: make(chan error, 1)}
	s.http = &http.Server{
		Handler: cfg.Handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: cfg.HeaderBytesMax,
		BaseContext: func(net.Listener) context.Context { return ctx }, TLSConfig: cfg.TLS,
		ErrorLog: log.New(io.Discard, "", 0), // broken connections are the clients' to report
	}
	go func() {
		if cfg.TLS == nil {
			s.served <- s.http.Serve(socket)
		} else {
			s.served <- s.http.ServeTLS(socket, "", "")
		}
	}()
	return s
}

// Done returns a channel that receives the error if serving fails before Close.
func (s *Server) Done() <-chan error { return s.served }

// Close ends the contexts of requests, waits briefly for requests in flight, and closes all
// connections.
func (s *Server) Close() error {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	return err
}
