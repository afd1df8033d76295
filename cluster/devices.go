package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
)

// Devices names what backs the volumes.
type Devices string

// The kinds of devices.
const (
	Auto  Devices = "auto"  // Loop if available, else Array
	Loop  Devices = "loop"  // loop devices of this machine, with real file systems and mounts; a stepped world is then not reproducible
	Array Devices = "array" // a simulated disk array in memory
	// LVM is one volume group per node, over a sparse file of this machine. File systems and mounts
	// are real, and each volume can be used on its own node only. The class binds
	// WaitForFirstConsumer.
	LVM Devices = "lvm"
)

// choose resolves Auto and returns the kind and the reason in words. It fails for an unknown kind,
// and for Loop and LVM if they are not available; the error says what to do.
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

// open creates the driver of a chosen kind.
func (d Devices) open(cfg Config) (driver, error) {
	if d == Array {
		if len(cfg.MoreDevices) > 0 {
			return nil, fmt.Errorf("more devices %v: only devices %q and %q can be in one cluster", cfg.MoreDevices, Loop, LVM)
		}
		return newArrayDriver(array.Config{VolumesPerNode: cfg.VolumesPerNode, Now: cfg.API.Now}), nil
	}
	kinds := []Devices{d}
	for _, more := range cfg.MoreDevices {
		if more != Loop && more != LVM || slices.Contains(kinds, more) {
			return nil, fmt.Errorf("more devices %v: want %q with devices %q, or the reverse", cfg.MoreDevices, Loop, LVM)
		}
		if _, _, err := more.choose(false); err != nil {
			return nil, err
		}
		kinds = append(kinds, more)
	}
	return openBlockDriver(context.Background(), d, cfg)
}

// A driver is a CSI driver with the disks of the nodes it serves.
type driver interface {
	name() string
	// topology reports whether a volume can be used on some nodes only.
	topology() bool
	// controller registers the controller's services.
	controller(grpc.ServiceRegistrar)
	// addNode creates a node's disk and returns it with the kubelet's root on it and the driver's
	// services there.
	addNode(node string) (fs nodefs.FS, root string, services csi.RegisterFunc, err error)
	// addMachine creates the empty disk of a machine that is no node.
	addMachine(name string) (hostpath.Machine, error)
	// addDisk gives a node a disk; nothing exists at its path.
	addDisk(node string, machine hostpath.Machine, disk Disk) error
	// volumeGroups returns the volume groups of a node, without any.
	volumeGroups(node string) (volumegroup.Backend, error)
	// boot drops the mounts and devices of a node, as a reboot of its machine does. Disks are
	// attached again.
	boot(node string) error
	// leaks returns what the driver still holds: volumes, devices, mounts.
	leaks() ([]string, error)
	// close removes everything that the driver and its nodes created.
	close() error
}

// An arrayDriver is the simulated array with nodes in memory.
type arrayDriver struct {
	array *array.Array
	nodes map[string]*nodefs.Memory
	disks disks
}

func newArrayDriver(cfg array.Config) *arrayDriver {
	return &arrayDriver{array: array.New(cfg), nodes: map[string]*nodefs.Memory{}}
}

func (d *arrayDriver) name() string { return array.DriverName }

func (d *arrayDriver) topology() bool { return false }

func (d *arrayDriver) controller(r grpc.ServiceRegistrar) {
	csispec.RegisterIdentityServer(r, d.array.Identity())
	csispec.RegisterControllerServer(r, d.array.Controller())
	csispec.RegisterGroupControllerServer(r, d.array.GroupController())
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

func (d *arrayDriver) addMachine(string) (hostpath.Machine, error) {
	return hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}, nil
}

func (d *arrayDriver) volumeGroups(node string) (volumegroup.Backend, error) {
	return volumegroup.NewMemory(d.nodes[node], "/"+node), nil
}

func (d *arrayDriver) boot(node string) error {
	d.nodes[node].Reset()
	return d.disks.reattach(node)
}

func (d *arrayDriver) leaks() ([]string, error) {
	var leaks []string
	for _, v := range d.array.Volumes() {
		leaks = append(leaks, fmt.Sprintf("volume %s (%s) of the array, attached to %v", v.ID, v.Name, v.AttachedTo))
	}
	for _, s := range d.array.Snapshots() {
		leaks = append(leaks, fmt.Sprintf("snapshot %s (%s) of %s on the array", s.ID, s.Name, s.SourceID))
	}
	for _, node := range slices.Sorted(maps.Keys(d.nodes)) {
		mounts, err := d.disks.mountLeaks(node, d.nodes[node])
		if err != nil {
			return nil, err
		}
		leaks = append(leaks, mounts...)
	}
	return leaks, nil
}

func (d *arrayDriver) close() error { return nil }

// mountLeaks returns the mounts of a node that are not those of its disks.
func (d *disks) mountLeaks(node string, fs nodefs.Mounter) ([]string, error) {
	mounts, err := fs.Mounts()
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var leaks []string
	for _, m := range d.withoutDisks(node, mounts) {
		leaks = append(leaks, "mount "+m.Path)
	}
	return leaks, nil
}

// SetVolumesPerNode limits how many volumes can be attached to a node from now on; 0 means no
// limit. Attached volumes stay attached. It fails if the devices have no limit; see
// Config.VolumesPerNode.
func (c *Cluster) SetVolumesPerNode(perNode int) error {
	d, is := c.driver.(*arrayDriver)
	if !is || perNode < 0 {
		return fmt.Errorf("%d volumes per node: need devices %q and a number of at least 0", perNode, Array)
	}
	d.array.SetVolumesPerNode(perNode)
	return nil
}
