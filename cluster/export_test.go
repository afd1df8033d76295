package cluster

import (
	"context"
	"os"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
)

// Controller is the controller service of the driver, without sidecars.
func (c *Cluster) Controller() csispec.ControllerServer {
	if d, ok := c.driver.(*arrayDriver); ok {
		return d.array.Controller()
	}
	return c.driver.(*blockDriver).Controller()
}

// OpenVolumeGroups creates the devices of a cluster of two nodes in which the second node's disk is a directory.
func OpenVolumeGroups(ctx context.Context, dir string) error {
	d, err := newBlockDriver(ctx, LVM, Config{Dir: dir, Nodes: 2})
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, diskPrefix+nodeName(1)), 0o700); err != nil {
		return err
	}
	if _, err := d.openLVM(ctx, 2); err != nil {
		return d.abandon(ctx, err)
	}
	return nil
}

// IsLeaseRenewal reports whether the trace of a live world omits a record.
var IsLeaseRenewal = isLeaseRenewal

// PodCauses returns what the error of a wait says about a pod.
func (c *Cluster) PodCauses(namespace, name string) []string {
	pod, _ := c.pod(namespace, name)
	return c.podCauses(pod)
}

// Actors is the list of what acts on the objects of each resource.
var Actors = actors

// StoredOnly reports whether nothing acts on the objects.
func (a actor) StoredOnly() bool { return a.stored != "" }

// Components returns the names of the components that act on a new object.
func (a actor) Components() []string { return a.components }
