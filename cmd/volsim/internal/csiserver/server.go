package csiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
)

// Server is a gRPC server on a unix socket. Make one with Listen.
type Server struct {
	path     string
	listener net.Listener
	server   *grpc.Server
	served   chan error
}

// Listen makes a server at a socket. It serves once Serve is called.
func Listen(path string, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) (*Server, error) {
	listener, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := &Server{path: path, listener: listener, server: grpc.NewServer(options...), served: make(chan error, 1)}
	register(s.server)
	return s, nil
}

// Serve takes calls from now on, in a goroutine of its own.
func (s *Server) Serve() {
	go func() { s.served <- s.server.Serve(s.listener) }()
}

// Done gives the error with which serving ended by itself.
func (s *Server) Done() <-chan error { return s.served }

// Stop takes no more calls, waits for those under way, cuts off those that are not
// done after grace, which is an error, and removes the socket. Call it once, after
// Serve, and not when Done gave something.
func (s *Server) Stop(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	ended := make(chan struct{})
	go func() { s.server.GracefulStop(); close(ended) }()
	var late error
	select {
	case <-ended:
	case <-ctx.Done():
		s.server.Stop() // who does not heed its context is not waited for
		late = fmt.Errorf("calls at %s that had not ended after %v were cut off", s.path, grace)
	}
	err := <-s.served
	if errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	return errors.Join(err, late)
}
