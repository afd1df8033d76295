package cluster

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
)

// controlPlaneName is the name of the directory, and of the machine, of the control plane.
const controlPlaneName = "control-plane"

// InstallFlexDriver installs a FlexVolume driver, such as "example.com/disk", on a node, or on the
// machine of the attach/detach controller if node is "". It replaces a driver of that name; a nil
// program removes it. Running kubelets and controllers find it, as they find those on their disk
// when they start. The program returns what it prints, and an error if it fails. In a stepped world
// it runs within one step.
//
// It fails for Loop and LVM, where a driver is an executable: write it to its place below
// flexvolume.Dir of Machine(node). A live cluster finds it there.
//
// The error of an unknown node matches ErrUnknownComponent.
func (c *Cluster) InstallFlexDriver(
	node, driver string, program func(ctx context.Context, args ...string) ([]byte, error),
) error {
	machine, err := c.Machine(node)
	if err != nil {
		return err
	}
	name := strings.Replace(driver, "/", "~", 1)
	dir := machine.Path(path.Join(flexvolume.Dir, name))
	file := path.Join(dir, path.Base(driver))
	disk, ok := machine.FS.(*nodefs.Memory)
	switch {
	case !ok:
		return fmt.Errorf("cluster: driver %q is not installed: devices are %q (%s), and the disk is a directory of this machine; "+
			"write an executable to %s", driver, c.devices, c.devicesReason, file)
	case program == nil:
		err = disk.RemoveAll(dir)
	default:
		err = errors.Join(disk.MkdirAll(dir), disk.WriteProgram(file, program))
	}
	if err == nil {
		c.notifyFlexDrivers(node, name)
	}
	return err
}

// notifyFlexDrivers notifies the running processes of a machine of a change of a driver.
func (c *Cluster) notifyFlexDrivers(node, name string) {
	for _, p := range c.components {
		switch {
		case p.process.Load() == nil:
		case node == "":
			if find := c.driversOf(p.name); find != nil {
				find().Notify(name)
			}
		case p.name == kubeletName(node):
			n, _ := c.node(node)
			n.kubelet.Load().FlexDrivers().Notify(name)
		}
	}
}

// isLive reports whether the world is live. There, what finds drivers is created at the start; in a
// stepped world, where its tasks would change the world, with the first driver.
func (c *Cluster) isLive() bool {
	_, stepped := c.host.(*sim.Stepped)
	return !stepped
}

// findControllerDrivers makes an attach/detach controller find drivers on the machine of the control
// plane.
func (p ComponentContext) findControllerDrivers(manager *plugins.Manager) {
	c := p.cluster
	if c == nil { // a component of a Remote
		return
	}
	disk, dir := c.controlPlane.FS, c.controlPlane.Path(flexvolume.Dir)
	var drivers *prober.Directory
	find := func() *prober.Directory {
		if drivers == nil {
			drivers = prober.New(prober.Config{
				Process: p.Process, Manager: manager, FS: disk, Dir: dir,
				New: func(ctx context.Context, program, name string) (plugins.Plugin, error) {
					return flexvolume.New(ctx, flexvolume.Config{Process: p.Process, FS: disk}, program, name)
				},
			})
		}
		return drivers
	}
	name := p.Process.Name()
	c.mu.Lock()
	c.controllerDrivers[name] = find
	c.mu.Unlock()
	there, err := disk.Exists(dir)
	if err != nil || there {
		find().Notify("")
	} else if c.isLive() {
		find()
	}
	if _, memory := disk.(*nodefs.Memory); c.isLive() && !memory {
		c.directories.add(name, find().Watch)
	}
}

// driversOf returns what finds the drivers of an attach/detach controller; nil: it is another
// component.
func (c *Cluster) driversOf(component string) func() *prober.Directory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.controllerDrivers[component]
}
