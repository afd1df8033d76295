package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
)

// Devices says what volumes are made of.
type Devices string

// The kinds of devices.
const (
	Auto  Devices = "auto"  // Loop where it can be had, else Array
	Loop  Devices = "loop"  // loop devices of this machine, with real file systems and mounts; a stepped world is then not the same twice
	Array Devices = "array" // the memory of a simulated disk array
	// LVM is volume groups of this machine, one for each node over a sparse file: real file systems and mounts, of which each can
	// be used on its own node only. The class binds WaitForFirstConsumer.
	LVM Devices = "lvm"
)

// choose settles Auto, and says in words what was chosen and why. It fails for Loop and LVM where they cannot be had, with what
// to do about it, and for an unknown kind.
func (d Devices) choose(stepped bool) (Devices, string, error) {
	switch d {
	case Array:
		return Array, "a simulated disk array in memory, as asked", nil
	case Loop:
		if err := loop.Probe(); err != nil {
			return "", "", fmt.Errorf("devices loop: %w", err)
		}
		return Loop, "loop devices of this machine, as asked", nil
	case LVM:
		if err := lvm.Probe(); err != nil {
			return "", "", fmt.Errorf("devices lvm: %w", err)
		}
		return LVM, "logical volumes of this machine, as asked", nil
	case Auto, "":
		if stepped {
			return Array, "a simulated disk array in memory: the world is stepped", nil
		}
		if err := loop.Probe(); err != nil {
			return Array, fmt.Sprintf("a simulated disk array in memory: %v", err), nil
		}
		return Loop, "loop devices of this machine: it has all that is needed", nil
	default:
		return "", "", fmt.Errorf("devices %q: want %s, %s, %s or %s", d, Auto, Loop, LVM, Array)
	}
}

// open makes the driver of devices that were chosen.
func (d Devices) open(cfg Config) (driver, error) {
	switch d {
	case Loop:
		return newLoopDriver(cfg.Dir)
	case LVM:
		return newLVMDriver(context.Background(), cfg.Dir, cfg.Nodes)
	default:
		return newArrayDriver(cfg.VolumesPerNode), nil
	}
}

// driver is a CSI driver and the disks of the nodes it serves.
type driver interface {
	name() string
	// topology tells whether a volume can be used on some nodes only.
	topology() bool
	// controller adds the controller's services.
	controller(grpc.ServiceRegistrar)
	// addNode gives a node its disk, the kubelet's root on it, and the driver's services there.
	addNode(node string) (fs nodefs.FS, root string, services csi.RegisterFunc, err error)
	// boot takes the mounts and the devices of a node away, as starting its machine again does.
	boot(node string) error
	// leaks names what the driver still holds: volumes, devices, mounts.
	leaks() ([]string, error)
	// close takes everything away that the driver and its nodes made.
	close() error
}

// arrayDriver is the simulated array with nodes in memory.
type arrayDriver struct {
	array *array.Array
	nodes map[string]*nodefs.Memory
}

func newArrayDriver(perNode int) *arrayDriver {
	return &arrayDriver{array: array.New(array.Config{VolumesPerNode: perNode}), nodes: map[string]*nodefs.Memory{}}
}

func (d *arrayDriver) name() string { return array.DriverName }

func (d *arrayDriver) topology() bool { return false }

func (d *arrayDriver) controller(r grpc.ServiceRegistrar) {
	csispec.RegisterIdentityServer(r, d.array.Identity())
	csispec.RegisterControllerServer(r, d.array.Controller())
}

func (d *arrayDriver) addNode(node string) (nodefs.FS, string, csi.RegisterFunc, error) {
	root := "/" + node
	fs := nodefs.NewMemory(root)
	d.nodes[node] = fs
	server := d.array.Node(node, fs)
	return fs, root, func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, d.array.Identity())
		csispec.RegisterNodeServer(r, server)
	}, nil
}

func (d *arrayDriver) boot(node string) error {
	d.nodes[node].Reset()
	return nil
}

func (d *arrayDriver) leaks() ([]string, error) {
	var left []string
	for _, v := range d.array.Volumes() {
		left = append(left, fmt.Sprintf("volume %s (%s) of the array, attached to %v", v.ID, v.Name, v.AttachedTo))
	}
	for _, node := range slices.Sorted(maps.Keys(d.nodes)) {
		mounts, err := mountLeaks(d.nodes[node])
		if err != nil {
			return nil, err
		}
		left = append(left, mounts...)
	}
	return left, nil
}

func (d *arrayDriver) close() error { return nil }

func mountLeaks(fs nodefs.FS) ([]string, error) {
	mounts, err := fs.Mounts()
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var left []string
	for _, m := range mounts {
		left = append(left, "mount "+m.Path)
	}
	return left, nil
}

// SetVolumesPerNode lets so many volumes be attached to a node from now on, as when something else has taken places; 0: any number.
// What is attached stays. It fails where the devices have no limit; see Config.VolumesPerNode.
func (c *Cluster) SetVolumesPerNode(perNode int) error {
	d, is := c.driver.(*arrayDriver)
	if !is || perNode < 0 {
		return fmt.Errorf("%d volumes for each node: want the array, and at least 0", perNode)
	}
	d.array.SetVolumesPerNode(perNode)
	return nil
}
