package cluster

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/localprovisioner"
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/podnetwork"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/volumemanager"
)

// A node is one node of the cluster.
type node struct {
	name     string
	fs       nodefs.FS
	root     string     // directory on fs of the node and its kubelet
	address  netip.Addr // with pods, the network of its pods' addresses
	pods     netip.Prefix
	services csi.RegisterFunc // of the driver of Config.Devices
	drivers  []*nodeDriver    // in the order of Cluster.drivers
	sockets  sockets
	boots    int                 // number of reboots
	groups   volumegroup.Backend // of local storage; nil: none

	containerProcess *sim.Process // of the runtime of containers; nil: none

	// Other goroutines may read the fields below while an event changes them.
	containers  atomic.Pointer[container.Runtime]           // since the last boot; nil: none
	kubelet     atomic.Pointer[kubelet.Kubelet]             // the kubelet started last; nil: none
	connections atomic.Pointer[kubeletConnections]          // of that; nil: none
	disks       atomic.Pointer[localprovisioner.Controller] // the provisioner started last; nil: none
	storage     atomic.Pointer[localstorage.Manager]        // the manager started last; nil: none
	partitioned atomic.Bool                                 // see PartitionNode
}

// nodeName returns the name of the i-th node, counted from 0.
func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// addNodeDisks creates the disks of all nodes, and that of the control plane. The PersistentVolume
// controller's machine is the first node, so that in a world of one node pods can use the
// directories it provisions. Without nodes it has a disk of its own.
func (c *Cluster) addNodeDisks(cfg Config) (err error) {
	if c.controlPlane, err = c.driver.addMachine(controlPlaneName); err != nil {
		return err
	}
	exports, err := c.driver.addMachine(exportsName)
	if err != nil {
		return err
	}
	c.nfs = nfs.NewServers(exports)
	if !cfg.includes("kubelet") {
		c.machine = hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
		return nil
	}
	for i := range cfg.Nodes {
		n := &node{name: nodeName(i)}
		if cfg.Containers.runs() {
			n.address, n.pods = podnetwork.Of(i)
		}
		n.fs, n.root, n.services, err = c.driver.addNode(n.name)
		if err != nil {
			return err
		}
		if _, real := n.fs.(*nodefs.Real); real && cfg.Stepped == nil {
			n.sockets.machine = &pluginmanager.Unix{}
		}
		c.nodes = append(c.nodes, n)
	}
	c.machine = hostpath.Machine{FS: c.nodes[0].fs, Root: c.nodes[0].root}
	return nil
}

// addNode adds a node's drivers and its kubelet.
func (c *Cluster) addNode(cfg Config, n *node) error {
	if err := c.addNodeDrivers(n); err != nil {
		return err
	}
	if cfg.PreRegistered {
		if err := c.preRegister(n); err != nil {
			return err
		}
	}
	if err := c.bootContainers(n); err != nil {
		return err
	}
	return c.addComponent(cfg, recipe{
		name: kubeletName(n.name),
		filters: func(func() informers.SharedInformerFactory) []fake.Filter {
			return []fake.Filter{
				{Resource: "pods", Fields: "spec.nodeName=" + n.name},
				{Resource: "nodes", Fields: "metadata.name=" + n.name},
				claimFilter(volumemanager.IsNodeResize),
			}
		},
		start: func(p ComponentContext) error {
			disk := p.nodeDisk(n.fs)
			further, err := p.userPlugins(PluginHost{Node: n.name, Disk: disk, Root: n.root})
			if err != nil {
				return err
			}
			k, err := kubelet.New(kubelet.Config{
				Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, Node: n.name, Root: n.root,
				FS: disk, NFS: c.nfsServers(), Plugins: further,
				BootID: fmt.Sprintf("%s-%d", n.name, n.boots), SyncFrequency: cfg.SyncFrequency,
				Containers: n.runtime(), Address: n.address, PodNetwork: n.pods, SelfAttach: cfg.KubeletsAttach, NodeLease: cfg.NodeLeases,
				SELinux: cfg.SELinux, SELinuxMount: cfg.SELinuxMount,
				VolumeHealth: cfg.HealthMonitor, StatsPeriod: cfg.statsPeriod(),
				Sockets: &n.sockets, Dial: c.dialer(p, n),
			})
			if err != nil {
				return err
			}
			n.kubelet.Store(k)
			if n.runtime() != nil {
				n.connections.Store(newKubeletConnections(p.Process))
			}
			c.watchDirectories(p.Process.Name(), n, k)
			return nil
		},
	})
}
