package cluster

import (
	"fmt"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"

	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/registrar"
	"github.com/volsim/volsim/sim"
)

// sockets are a node's plugin sockets: those of the cluster's own driver in memory, and, if the
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

// The sockets of the cluster's own driver, at the paths that node-driver-registrar usually uses.

func (n *node) driverSocket(driver string) string {
	return filepath.Join(n.root, "plugins", driver, "csi.sock")
}

func (n *node) registrationSocket(driver string) string {
	return filepath.Join(n.root, "plugins_registry", driver+"-reg.sock")
}

// services returns the driver's services on a node and its registrar's.
func (n *node) services(driver string) csi.RegisterFunc {
	announces := registrar.New(driver, n.driverSocket(driver))
	return func(r grpc.ServiceRegistrar) {
		n.driver(r)
		announces.Register(r)
	}
}

// createSockets creates the driver's sockets on a node.
func (c *Cluster) createSockets(n *node) {
	n.sockets.Put(n.driverSocket(c.driver.name()), n.conn)
	n.sockets.Put(n.registrationSocket(c.driver.name()), n.conn)
}

// dialer returns the function with which a kubelet connects to drivers. It has one connection to
// the cluster's own driver for as long as it runs.
func (c *Cluster) dialer(p ComponentContext, n *node) func(driver, endpoint string) (grpc.ClientConnInterface, error) {
	own, err := n.sockets.Memory.Dial(n.driverSocket(c.driver.name()))
	own = p.driverConn(c.driver.name(), own)
	return func(driver, endpoint string) (grpc.ClientConnInterface, error) {
		if driver == c.driver.name() && endpoint == n.driverSocket(driver) {
			return own, err
		}
		conn, err := n.sockets.Dial(endpoint)
		if err != nil {
			return nil, err
		}
		return p.driverConn(driver, conn), nil
	}
}

// StopDriver removes the driver's sockets on a node, as when its process there ends. The kubelet
// deregisters the driver, and calls fail as Unavailable. Mounts stay, and the controller service
// continues. The error matches ErrUnknownComponent.
func (c *Cluster) StopDriver(node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	n.driverStopped.Store(true)
	n.sockets.Remove(n.registrationSocket(c.driver.name()))
	n.sockets.Remove(n.driverSocket(c.driver.name()))
	c.notifyKubelet(n)
	return nil
}

// notifyKubelet notifies the node's kubelet, if it runs, of a change of the driver's registration
// socket.
func (c *Cluster) notifyKubelet(n *node) {
	if p, err := c.component(kubeletName(n.name)); err == nil && p.process.Load() != nil {
		n.kubelet.Load().Plugins().Notify(n.registrationSocket(c.driver.name()))
	}
}

// StartDriver creates the driver's sockets on a node, again if they exist; the kubelet registers
// the driver. The error matches ErrUnknownComponent.
func (c *Cluster) StartDriver(node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	n.driverStopped.Store(false)
	c.createSockets(n)
	c.notifyKubelet(n)
	return nil
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
