package cluster

import (
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
)

// NFSExports returns the disk whose directories the simulated NFS servers export: PATH of SERVER is
// the directory /SERVER/PATH. A server of any name exports every path; a missing directory is created
// when it is mounted. On devices of this machine it is a directory of the cluster's own, which nodes
// bind.
func (c *Cluster) NFSExports() hostpath.Machine { return c.nfs.Machine() }

// StopNFSServer makes a simulated NFS server unreachable until StartNFSServer or Repair. Mounting from
// it fails after two minutes, and is tried again. An unmount takes one minute, but on devices of this
// machine it does not notice. The files of mounted volumes stay accessible.
func (c *Cluster) StopNFSServer(server string) { c.nfs.Stop(server) }

// StartNFSServer makes a simulated NFS server reachable again.
func (c *Cluster) StartNFSServer(server string) { c.nfs.Start(server) }

// nfsServers returns the servers of the kubelets' volumes; nil: real ones.
func (c *Cluster) nfsServers() *nfs.Servers {
	if c.realNFS {
		return nil
	}
	return c.nfs
}
