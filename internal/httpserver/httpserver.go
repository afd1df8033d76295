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
	headerTimeout = 10 * time.Second // for a request's header to arrive
	idleTimeout   = 2 * time.Minute  // between two requests of a connection
	closeTimeout  = 3 * time.Second  // for requests in flight, once streams have been told to end
)

// Config is what a server is told.
type Config struct {
	Handler        http.Handler
	HeaderBytesMax int
	TLS            *tls.Config // nil: it serves HTTP, not HTTPS
}

// Server is a server that serves. Its methods may be called concurrently.
type Server struct {
	http   *http.Server
	cancel context.CancelFunc // ends the contexts of requests
	served chan error
}

// Serve begins to serve at a socket, which is the server's from then on. Close it.
func Serve(socket net.Listener, cfg Config) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{cancel: cancel, served: make(chan error, 1)}
	s.http = &http.Server{
		Handler: cfg.Handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: cfg.HeaderBytesMax,
		BaseContext: func(net.Listener) context.Context { return ctx }, TLSConfig: cfg.TLS,
		ErrorLog: log.New(io.Discard, "", 0), // what clients break off is theirs to tell
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

// Done yields the error that serving ended with before Close, if it does.
func (s *Server) Done() <-chan error { return s.served }

// Close ends the contexts of requests, waits a moment for those in flight, and closes all
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
