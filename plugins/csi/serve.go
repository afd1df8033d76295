package csi

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// A Server runs a driver as a gRPC server behind an in-memory listener, with one connection to it.
type Server struct {
	server *grpc.Server
	conn   *grpc.ClientConn
	done   chan error
}

// Serve starts a gRPC server with the driver's services. The caller must call Stop.
func Serve(register RegisterFunc) (*Server, error) {
	const bufferBytes = 64 << 10
	listener := bufconn.Listen(bufferBytes)
	s := &Server{server: grpc.NewServer(), done: make(chan error, 1)}
	register(s.server)
	conn, err := grpc.NewClient("passthrough:///driver",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to driver: %w", err)
	}
	s.conn = conn
	go func() { s.done <- s.server.Serve(listener) }()
	return s, nil
}

// Conn returns the connection to the driver. It may be used concurrently.
func (s *Server) Conn() grpc.ClientConnInterface { return s.conn }

// Stop waits for the calls in progress and stops the server. It returns when the server has
// stopped.
func (s *Server) Stop() error {
	s.server.GracefulStop()
	return s.close()
}

// Kill stops the server as if its process were killed: the calls in progress fail as Unavailable, and
// the contexts of their handlers end.
func (s *Server) Kill() error {
	s.server.Stop()
	return s.close()
}

// close returns when the server has stopped.
func (s *Server) close() error {
	err := <-s.done
	if errors.Is(err, grpc.ErrServerStopped) {
		err = nil // stopped before it began to serve
	}
	if closeErr := s.conn.Close(); err == nil {
		err = closeErr
	}
	return err
}
