package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/registrar"
	"github.com/volsim/volsim/sim"
)

// sockets are a node's plugin sockets: those of the cluster's drivers in memory, and, if the
// world is live and the node is a directory of this machine, those of this machine.
type sockets struct {
	pluginmanager.Memory
	machine *pluginmanager.Unix // nil: none
}

// List returns the paths of the sockets below a directory.
func (s *sockets) List(dir string) ([]string, error) {
	paths, err := s.Memory.List(dir)
	if err != nil || s.machine == nil {
		return paths, err
	}
	more, err := s.machine.List(dir)
	paths = append(paths, more...)
	slices.Sort(paths)
	return slices.Compact(paths), err
}

// Identify returns the identity of the socket at a path.
func (s *sockets) Identify(path string) (string, error) {
	identity, err := s.Memory.Identify(path)
	if err != nil || identity != "" || s.machine == nil {
		return identity, err
	}
	identity, err = s.machine.Identify(path)
	if identity != "" {
		identity = "machine's " + identity
	}
	return identity, err
}

// Dial connects to the server at a path.
func (s *sockets) Dial(path string) (grpc.ClientConnInterface, error) {
	if identity, err := s.Memory.Identify(path); err != nil || identity != "" || s.machine == nil {
		return s.Memory.Dial(path)
	}
	return s.machine.Dial(path)
}

// A nodeDriver is a driver on a node.
type nodeDriver struct {
	*csiDriver
	node      *node
	conn      grpc.ClientConnInterface // to the services that were started last
	registrar grpc.ClientConnInterface // to the registrar that was started last
	server    *csi.Server              // of both, or of the registrar; nil: none
	life      *driverLife              // of the services; nil: they are built in, or not in this program
	stopped   atomic.Bool              // see StopDriver
}

// at returns where the driver runs.
func (d *nodeDriver) at() DriverNode {
	return DriverNode{Name: d.node.name, Disk: d.node.fs, Root: d.node.root}
}

// The sockets of a driver, at the paths that node-driver-registrar usually uses.

func (d *nodeDriver) socket() string {
	return filepath.Join(d.node.root, "plugins", d.Name, "csi.sock")
}

func (d *nodeDriver) registrationSocket() string {
	return filepath.Join(d.node.root, "plugins_registry", d.Name+"-reg.sock")
}

// addNodeDrivers starts the drivers of a node.
func (c *Cluster) addNodeDrivers(n *node) error {
	for _, installed := range c.drivers {
		if !c.servesNode(installed, n) {
			continue
		}
		d := &nodeDriver{csiDriver: installed, node: n}
		n.drivers = append(n.drivers, d)
		if err := c.startNodeDriver(d); err != nil {
			return fmt.Errorf("driver %s on %s: %w", d.Name, n.name, err)
		}
	}
	return nil
}

// startNodeDriver starts the services of a driver on its node with those of its registrar, and creates
// their sockets.
func (c *Cluster) startNodeDriver(d *nodeDriver) error {
	announces := registrar.New(d.Name, d.socket())
	register := func(grpc.ServiceRegistrar) {}
	var err error
	switch {
	case d.builtIn:
		register, err = d.Node(d.at())
	case d.Node != nil:
		d.life = c.newDriverLife(d.eventName())
		register, err = d.life.setUp(d.Node, d.at())
	default:
		d.conn, err = c.dialNode(d)
	}
	if err != nil {
		return err
	}
	d.registrar, d.server, err = c.connect(func(r grpc.ServiceRegistrar) {
		register(r)
		announces.Register(r)
	})
	if err != nil {
		return err
	}
	if d.registrar = d.life.conn(d.registrar); d.Node != nil {
		d.conn = d.registrar
	}
	d.createSockets()
	return nil
}

func (d *nodeDriver) createSockets() {
	d.node.sockets.Put(d.socket(), d.conn)
	d.node.sockets.Put(d.registrationSocket(), d.registrar)
}

// nodeDriver returns a driver on a node. Both errors match ErrUnknownComponent.
func (c *Cluster) nodeDriver(node, name string) (*nodeDriver, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range n.drivers {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return nil, fmt.Errorf("driver %q on %s: %w (have %s)", name, node, ErrUnknownComponent, strings.Join(names, ", "))
}

// dialer returns the function with which a kubelet connects to drivers. It has one connection to
// each of the cluster's drivers for as long as it runs.
func (c *Cluster) dialer(p ComponentContext, n *node) func(driver, endpoint string) (grpc.ClientConnInterface, error) {
	conns := map[string]grpc.ClientConnInterface{} // by endpoint
	for _, d := range n.drivers {
		conn, _ := n.sockets.Memory.Dial(d.socket()) // it never fails
		conns[d.socket()] = p.driverConn(d.Name, conn)
	}
	return func(driver, endpoint string) (grpc.ClientConnInterface, error) {
		if conn, ok := conns[endpoint]; ok {
			return conn, nil
		}
		conn, err := n.sockets.Dial(endpoint)
		if err != nil {
			return nil, err
		}
		return p.driverConn(driver, conn), nil
	}
}

// StopDriver ends drivers on a node, without names that of DriverName: their sockets are removed, the
// kubelet deregisters them, and calls fail as Unavailable. Mounts stay, and the controller service
// continues. With node "" it is the controller service that ends. The error matches ErrUnknownComponent.
func (c *Cluster) StopDriver(node string, drivers ...string) error {
	return c.eachDriver(node, drivers, c.stopController, c.stopNodeDriver)
}

// StartDriver starts drivers on a node, again if they run, and the kubelet registers them. Its arguments
// and errors are those of StopDriver.
func (c *Cluster) StartDriver(node string, drivers ...string) error {
	return c.eachDriver(node, drivers, c.resumeController, c.resumeNodeDriver)
}

// eachDriver calls a function for each of the named drivers on a node, or for their controllers.
func (c *Cluster) eachDriver(node string, names []string, controller func(*csiDriver) error, onNode func(*nodeDriver) error) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if len(names) == 0 {
		names = []string{c.DriverName()}
	}
	for _, name := range names {
		if node == "" {
			d := c.installed(name)
			if d == nil || d.builtIn || d.controller == nil {
				return fmt.Errorf("controller of driver %q: %w", name, ErrUnknownComponent)
			}
			if err := controller(d); err != nil {
				return err
			}
			continue
		}
		d, err := c.nodeDriver(node, name)
		if err == nil {
			err = onNode(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) stopController(d *csiDriver) error {
	d.stopped.Store(true)
	c.controllers.Remove(d.Name)
	c.endDriver(&d.life)
	if d.ControllerCommand != nil {
		d.programs.kill(d.controllerSocket(c))
	}
	return c.end(&d.server)
}

func (c *Cluster) resumeController(d *csiDriver) error {
	if err := c.stopController(d); err != nil {
		return err
	}
	d.stopped.Store(false)
	return c.startController(d)
}

func (c *Cluster) stopNodeDriver(d *nodeDriver) error {
	d.stopped.Store(true)
	d.node.sockets.Remove(d.registrationSocket())
	d.node.sockets.Remove(d.socket())
	var err error
	if !d.builtIn {
		d.programs.kill(d.socket())
		c.endDriver(&d.life)
		err = c.end(&d.server)
	}
	c.notifyKubelet(d)
	return err
}

func (c *Cluster) resumeNodeDriver(d *nodeDriver) error {
	d.stopped.Store(false)
	if d.builtIn {
		d.createSockets()
	} else {
		d.programs.kill(d.socket())
		c.endDriver(&d.life)
		if err := errors.Join(c.end(&d.server), c.startNodeDriver(d)); err != nil {
			return err
		}
	}
	c.notifyKubelet(d)
	return nil
}

// notifyKubelet notifies the kubelet of a driver's node, if it runs, of a change of the registration
// socket.
func (c *Cluster) notifyKubelet(d *nodeDriver) {
	if p, err := c.component(kubeletName(d.node.name)); err == nil && p.process.Load() != nil {
		d.node.kubelet.Load().Plugins().Notify(d.registrationSocket())
	}
}

// KubeletDir returns the directory of a node's kubelet on this machine. It contains pods, plugins
// and plugins_registry. A third-party CSI driver registers there as with any kubelet: by a unix
// socket with the service of pluginregistration/v1, as node-driver-registrar creates one. The error
// of an unknown node matches ErrUnknownComponent.
//
// It fails where nothing would watch such a directory: for Array, whose nodes have simulated disks,
// and in a stepped world.
func (c *Cluster) KubeletDir(node string) (string, error) {
	n, err := c.node(node)
	if err != nil {
		return "", err
	}
	_, stepped := c.host.(*sim.Stepped)
	switch {
	case c.devices == Array:
		return "", fmt.Errorf("cluster: no directory of %s: devices are %q (%s), and its disk is in memory; "+
			"use a live world with devices %q or %q", node, c.devices, c.devicesReason, Loop, LVM)
	case stepped:
		return "", fmt.Errorf("cluster: no directory of %s: the world is stepped, "+
			"and no kubelet watches sockets of this machine; use a live world", node)
	}
	return n.root, nil
}

// watchDirectories lets a kubelet notice sockets of drivers, and FlexVolume drivers, on the disk of its
// node, if that is a directory of this machine and the world is live.
func (c *Cluster) watchDirectories(component string, n *node, k *kubelet.Kubelet) {
	if c.isLive() {
		k.FlexDrivers() // see isLive
	}
	if n.sockets.machine != nil {
		c.directories.add(component, k.Plugins().Watch)
		c.directories.add(component, k.FlexDrivers().Watch)
	}
}
