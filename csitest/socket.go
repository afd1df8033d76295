package csitest

import (
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/volsim/volsim/cluster"
)

// sockets are the connections to a driver outside this program, by path.
type sockets struct {
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // guarded by mu
}

// dial returns the services at a socket.
func (s *sockets) dial(endpoint string) (registerFunc, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "unix:")
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := s.conns[path]
	if conn == nil {
		var err error
		if conn, err = grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return nil, fmt.Errorf("socket %s: %w", endpoint, err)
		}
		if s.conns == nil {
			s.conns = map[string]*grpc.ClientConn{}
		}
		s.conns[path] = conn
	}
	return forwarded(conn), nil
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, conn := range s.conns {
		conn.Close()
		delete(s.conns, path)
	}
}

// inProcess returns a driver whose services are in this program: those of sockets are forwarded. So a stepped
// world can have them, and their calls can be observed.
func (c *checker) inProcess(d cluster.Driver) (cluster.Driver, error) {
	if d.Command != nil || d.ControllerCommand != nil {
		return d, fmt.Errorf("driver %s is a program: start it, and set its sockets", d.Name)
	}
	if d.Socket == "" && len(d.NodeSockets) == 0 {
		return d, nil
	}
	shared, nodes := d.Socket, d.NodeSockets
	d.Socket, d.NodeSockets = "", nil
	starts := map[string]int{}
	services := func(node, socket string) (registerFunc, error) {
		if starts[node]++; starts[node] > 1 && c.target.Restart != nil {
			if err := c.target.Restart(node); err != nil {
				return nil, err
			}
		}
		return c.sockets.dial(socket)
	}
	if shared != "" {
		d.Controller = func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) { return services("", shared) }
	}
	d.Node = func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
		socket := nodes[at.Name]
		if socket == "" {
			socket = shared
		}
		if socket == "" {
			return nil, fmt.Errorf("driver %s has no socket for %s", d.Name, at.Name)
		}
		return services(at.Name, socket)
	}
	return d, nil
}
