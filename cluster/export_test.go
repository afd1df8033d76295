package cluster

import csispec "github.com/container-storage-interface/spec/lib/go/csi"

// Controller is the controller service of a driver on devices of this machine, without sidecars.
func (c *Cluster) Controller() csispec.ControllerServer { return c.driver.(*blockDriver).Controller() }
