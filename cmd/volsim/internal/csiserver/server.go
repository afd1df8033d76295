package csiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
)

// A Server is a gRPC server on a unix socket. Create it with Listen.
type Server struct {
	path     string
	listener net.Listener
	server   *grpc.Server
	served   chan error
}

// Listen creates a server on a socket. Calls wait until Serve. If other processes keep the socket's
// directory locked, Listen gives up after a few seconds, or when ctx ends.
func Listen(
	ctx context.Context, path string, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption,
) (*Server, error) {
	listener, err := listen(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &Server{path: path, listener: listener, server: grpc.NewServer(options...), served: make(chan error, 1)}
	register(s.server)
	return s, nil
}

// Serve starts serving, on a new goroutine.
func (s *Server) Serve() {
	go func() { s.served <- s.server.Serve(s.listener) }()
}

// Done returns a channel that receives the error if serving fails.
func (s *Server) Done() <-chan error { return s.served }

// Stop stops accepting calls, waits for calls in flight, and removes the socket. Calls that take
// longer than grace are aborted, which is an error. Call it once, after Serve, and not after Done
// has received an error.
func (s *Server) Stop(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	ended := make(chan struct{})
	go func() { s.server.GracefulStop(); close(ended) }()
	var late error
	select {
	case <-ended:
	case <-ctx.Done():
		s.server.Stop() // do not wait for handlers that ignore their context
		late = fmt.Errorf("calls on %s aborted after %v", s.path, grace)
	}
	err := <-s.served
	if errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	return errors.Join(err, late)
}
