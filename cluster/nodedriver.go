package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/registrar"
)

// sockets are those of a node: those of the cluster's own driver in memory, and beside them those of this machine where the node
// is a directory of it and the world is live.
type sockets struct {
	pluginmanager.Memory
	machine *pluginmanager.Unix // nil: none
}

// List is the paths of the sockets below a directory.
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

// Identify tells which socket is at a path.
func (s *sockets) Identify(path string) (string, error) {
	is, err := s.Memory.Identify(path)
	if err != nil || is != "" || s.machine == nil {
		return is, err
	}
	is, err = s.machine.Identify(path)
	if is != "" {
		is = "machine's " + is
	}
	return is, err
}

// Dial is a connection to whoever answers at a path.
func (s *sockets) Dial(path string) (grpc.ClientConnInterface, error) {
	if is, err := s.Memory.Identify(path); err != nil || is != "" || s.machine == nil {
		return s.Memory.Dial(path)
	}
	return s.machine.Dial(path)
}

// The sockets of the cluster's own driver, as node-driver-registrar is usually told them.

func (n *node) driverSocket(driver string) string {
	return filepath.Join(n.root, "plugins", driver, "csi.sock")
}

func (n *node) registrationSocket(driver string) string {
	return filepath.Join(n.root, "plugins_registry", driver+"-reg.sock")
}

// services are the driver's on a node, and its registrar's.
func (n *node) services(driver string) csi.RegisterFunc {
	announces := registrar.New(driver, n.driverSocket(driver))
	return func(r grpc.ServiceRegistrar) {
		n.driver(r)
		announces.Register(r)
	}
}

// createSockets makes the driver's sockets on a node.
func (c *Cluster) createSockets(n *node) {
	n.sockets.Put(n.driverSocket(c.driver.name()), n.conn)
	n.sockets.Put(n.registrationSocket(c.driver.name()), n.conn)
}

// dialer gives a kubelet its connections to drivers. To the cluster's own it has one for as long as it runs.
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

// StopDriver takes the driver's sockets on a node away, as when its process there ends: its kubelet deregisters it, and calls
// fail as Unavailable. What is mounted stays. The controller's part of the driver goes on. The error matches ErrNoPart.
func (c *Cluster) StopDriver(node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	n.driverStopped = true
	n.sockets.Remove(n.registrationSocket(c.driver.name()))
	n.sockets.Remove(n.driverSocket(c.driver.name()))
	c.notifyKubelet(n)
	return nil
}

// notifyKubelet tells the node's kubelet, if it runs, that something happened to the driver's announcement.
func (c *Cluster) notifyKubelet(n *node) {
	if p, err := c.component(kubeletName(n.name)); err == nil && p.process != nil {
		n.kubelet.Plugins().Notify(n.registrationSocket(c.driver.name()))
	}
}

// StartDriver makes the driver's sockets on a node, or makes them anew: its kubelet registers it. The error matches ErrNoPart.
func (c *Cluster) StartDriver(node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	n.driverStopped = false
	c.createSockets(n)
	c.notifyKubelet(n)
	return nil
}

// KubeletDir is the directory of a node's kubelet: a path on this machine for Loop and LVM, a path on the node's simulated disk
// for Array. Below it are pods and plugins, and plugins_registry, where in a live world on devices of this machine a CSI driver of
// one's own registers as with any kubelet: by a unix socket with the service of pluginregistration/v1, as node-driver-registrar
// makes one. The error matches ErrNoPart.
func (c *Cluster) KubeletDir(node string) (string, error) {
	n, err := c.node(node)
	if err != nil {
		return "", err
	}
	return n.root, nil
}

// socketWatch follows directories of this machine, beside a live host.
type socketWatch struct {
	once    sync.Once
	stop    context.CancelFunc // nil: nothing was begun
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error // guarded by mu
}

// watchSockets has the kubelets told what happens in their nodes' registries.
func (c *Cluster) watchSockets() {
	ctx, stop := context.WithCancel(context.Background())
	c.socketWatch.stop = stop
	for _, n := range c.nodes {
		if n.sockets.machine == nil {
			continue
		}
		c.socketWatch.running.Go(func() {
			err := n.kubelet.Plugins().Watch(ctx)
			c.socketWatch.mu.Lock()
			defer c.socketWatch.mu.Unlock()
			c.socketWatch.errs = append(c.socketWatch.errs, err)
		})
	}
}

// close ends the watch, and returns what it came upon.
func (w *socketWatch) close() error {
	if w.once.Do(func() {}); w.stop == nil {
		return nil
	}
	w.stop()
	w.running.Wait()
	return errors.Join(w.errs...)
}
