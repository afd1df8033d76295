package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/childprocess"
	"github.com/volsim/volsim/kubelet/pluginmanager"
)

// A driver outside this program is a server at a unix socket: one that runs already, or child processes.

// answerTimeout is how long a driver outside this program has to answer its first call.
const answerTimeout = 30 * time.Second

// isOutside reports whether services of the driver are not in this program.
func (d *Driver) isOutside() bool {
	return d.Socket != "" || len(d.NodeSockets) > 0 || d.Command != nil || d.ControllerCommand != nil
}

// mountsOutside reports whether node services of the driver are not in this program.
func (d *Driver) mountsOutside() bool {
	return d.Node == nil && (d.isOutside() && d.ControllerCommand == nil || d.Command != nil)
}

// checkOutside returns an error if the world cannot have a driver outside this program.
func (c *Cluster) checkOutside(d *Driver) error {
	switch {
	case !d.isOutside():
		return nil
	case !c.isLive():
		return errors.New("its services are outside this program, and the world is stepped: use Controller and Node, or a live world")
	case d.mountsOutside() && c.devices == Array:
		return fmt.Errorf("a driver outside this program mounts in real directories of nodes, and devices are %q (%s): "+
			"use devices %q or %q", c.devices, c.devicesReason, Loop, LVM)
	}
	for name := range d.NodeSockets {
		if _, err := c.node(name); err != nil {
			return fmt.Errorf("socket of %w", err)
		}
	}
	return nil
}

// socketPath returns the path of an endpoint such as unix:///run/csi.sock.
func socketPath(endpoint string) string {
	path := strings.TrimPrefix(endpoint, "unix:")
	if strings.HasPrefix(path, "//") {
		path = path[1:]
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// dialSocket connects to the server at a socket and returns when it answers, or when a program ends.
func dialSocket(socket string, program *childprocess.Process) (grpc.ClientConnInterface, error) {
	conn, err := (&pluginmanager.Unix{}).Dial(socket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if program != nil {
		go func() {
			select {
			case <-program.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	_, err = csispec.NewIdentityClient(conn).Probe(ctx, &csispec.ProbeRequest{}, grpc.WaitForReady(true))
	switch {
	case err == nil, status.Code(err) == codes.Unimplemented:
		return conn, nil
	case program != nil && ctx.Err() != nil && program.Err() != nil:
		return nil, fmt.Errorf("the program ended (%w)", program.Err())
	}
	return nil, fmt.Errorf("no answer at %s: %w", socket, err)
}

// programs are the child processes of a driver, by socket.
type programs struct {
	mu      sync.Mutex
	running map[string]*childprocess.Process // guarded by mu
}

// start starts a program that serves at a socket, unless it runs.
func (p *programs) start(cmd func(endpoint string) *exec.Cmd, socket string) (grpc.ClientConnInterface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	program := p.running[socket]
	if program != nil && program.Runs() {
		return dialSocket(socket, program)
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	program, err := childprocess.Start(cmd("unix://" + socket))
	if err != nil {
		return nil, err
	}
	conn, err := dialSocket(socket, program)
	if err != nil {
		program.Kill()
		return nil, err
	}
	if p.running == nil {
		p.running = map[string]*childprocess.Process{}
	}
	p.running[socket] = program
	return conn, nil
}

// kill kills the program that serves at a socket.
func (p *programs) kill(socket string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if program := p.running[socket]; program != nil {
		program.Kill()
		delete(p.running, socket)
	}
}

// stop ends all programs.
func (p *programs) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for socket, program := range p.running {
		program.Stop()
		delete(p.running, socket)
	}
}

// dialController connects to the controller service of a driver outside this program; nil: it has none.
func (c *Cluster) dialController(d *csiDriver) (grpc.ClientConnInterface, error) {
	switch {
	case d.ControllerCommand != nil:
		return d.programs.start(d.ControllerCommand, d.controllerSocket(c))
	case d.Socket != "":
		return dialSocket(socketPath(d.Socket), nil)
	case d.Command != nil && len(c.nodes) > 0:
		return c.dialNode(&nodeDriver{csiDriver: d, node: c.nodes[0]})
	}
	return nil, nil //nolint:nilnil // none
}

// controllerSocket returns where the program of a driver's controller serves.
func (d *csiDriver) controllerSocket(c *Cluster) string {
	return filepath.Join(c.controlPlane.Root, "plugins", d.Name, "csi.sock")
}

// servesNode reports whether a driver has services on a node.
func (c *Cluster) servesNode(d *csiDriver, n *node) bool {
	switch {
	case d.Node != nil, d.NodeSockets[n.name] != "", d.Command != nil:
		return true
	default:
		return d.Socket != "" && len(d.NodeSockets) == 0 && len(c.nodes) == 1
	}
}

// dialNode connects to the services of a driver outside this program on a node.
func (c *Cluster) dialNode(d *nodeDriver) (grpc.ClientConnInterface, error) {
	if d.Command != nil {
		return d.programs.start(func(endpoint string) *exec.Cmd { return d.Command(d.at(), endpoint) }, d.socket())
	}
	socket := d.NodeSockets[d.node.name]
	if socket == "" {
		socket = d.Socket
	}
	return dialSocket(socketPath(socket), nil)
}
