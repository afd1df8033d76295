package cluster

import (
	"context"
	"os"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
)

// Controller is the controller service of a driver on devices of this machine, without sidecars.
func (c *Cluster) Controller() csispec.ControllerServer { return c.driver.(*blockDriver).Controller() }

// OpenVolumeGroups creates the devices of a cluster of two nodes in which the second node's disk is a directory.
func OpenVolumeGroups(ctx context.Context, dir string) error {
	d, err := newBlockDriver(ctx, LVM, Config{Dir: dir, Nodes: 2})
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, diskPrefix+nodeName(1)), 0o700); err != nil {
		return err
	}
	return d.openLVM(ctx, 2)
}

// IsLeaseRenewal reports whether the trace of a live world omits a record.
var IsLeaseRenewal = isLeaseRenewal
