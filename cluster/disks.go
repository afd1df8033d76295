package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/localprovisioner"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A Disk is a disk of one node, such as local PersistentVolumes use.
type Disk struct {
	// Path is where the node has it: the mount point of a RAM disk, or the device node.
	Path string
	// SizeBytes is its size.
	SizeBytes int64
	// Block makes it an empty block device: a loop device over a sparse file for Loop and LVM, a
	// device without bytes, which can be formatted, for Array. Otherwise it is a RAM disk: a tmpfs,
	// whose content a reboot of the node loses.
	Block bool
}

// AddDisk gives a node a disk, which Close removes. The disk is found again after a reboot. It fails
// if there is something at the path already. The error of an unknown node matches
// ErrUnknownComponent.
func (c *Cluster) AddDisk(node string, disk Disk) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	if disk.SizeBytes <= 0 {
		return fmt.Errorf("disk %s of %s: size %d: must be positive", disk.Path, node, disk.SizeBytes)
	}
	machine := hostpath.Machine{FS: n.fs, Root: n.root}
	disk.Path = path.Clean("/" + disk.Path)
	if _, err := machine.Stat(disk.Path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("disk %s of %s: the path exists: use another path", disk.Path, node), err)
	}
	if err := c.driver.addDisk(n.name, machine, disk); err != nil {
		return fmt.Errorf("disk %s of %s: %w", disk.Path, node, err)
	}
	n.notifyDisks()
	return nil
}

// LoseDisk takes a disk from a node, as if it failed, until the node reboots. It fails if the node has no
// disk at the path, or if the devices are real.
func (c *Cluster) LoseDisk(node, name string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	d, simulated := c.driver.(*arrayDriver)
	if !simulated {
		return fmt.Errorf("lose disk %s of %s: need devices %q", name, node, Array)
	}
	at := hostpath.Machine{FS: n.fs, Root: n.root}.Path(name)
	if !slices.ContainsFunc(d.disks.of(node), func(disk attachedDisk) bool { return disk.at == at }) {
		return fmt.Errorf("lose disk %s of %s: no such disk", name, node)
	}
	if err := n.fs.Unmount(at); err != nil {
		return err
	}
	n.notifyDisks()
	return nil
}

// notifyDisks notifies the components that look at a node's disks.
func (n *node) notifyDisks() {
	if disks := n.disks.Load(); disks != nil {
		disks.Notify()
	}
	if storage := n.storage.Load(); storage != nil {
		storage.Notify()
	}
}

// addLocalProvisioners adds the components that make the disks of the nodes volumes.
func (c *Cluster) addLocalProvisioners(cfg Config) error {
	classes, err := localprovisioner.ParseClasses(cfg.LocalDisks)
	if err != nil || len(classes) == 0 {
		return err
	}
	for _, n := range c.nodes {
		err := c.addComponent(cfg, recipe{
			name: "localprovisioner(" + n.name + ")",
			filters: func(func() informers.SharedInformerFactory) []fake.Filter {
				return []fake.Filter{{Resource: "nodes", Fields: "metadata.name=" + n.name}}
			},
			start: func(p ComponentContext) error {
				n.disks.Store(localprovisioner.New(localprovisioner.Config{
					Process: p.Process, Client: p.Client, Informers: p.Informers,
					Recorder: p.Recorder("local-volume-provisioner-" + n.name),
					Node:     n.name, Machine: hostpath.Machine{FS: n.fs, Root: n.root}, Classes: classes,
				}))
				return nil
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// disks are the disks that nodes were given, in the order in which they got them.
type disks struct {
	mu     sync.Mutex
	byNode map[string][]attachedDisk // guarded by mu
}

// An attachedDisk is a disk and how it is attached to its node.
type attachedDisk struct {
	at     string          // its path on the node's FS
	attach func() error    // again after a reboot
	loop   loopdev.Binding // zero: none
}

func (d *disks) add(node string, disk attachedDisk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byNode == nil {
		d.byNode = map[string][]attachedDisk{}
	}
	d.byNode[node] = append(d.byNode[node], disk)
}

func (d *disks) of(node string) []attachedDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.byNode[node])
}

// reattach attaches the disks of a node after its reboot.
func (d *disks) reattach(node string) error {
	var failed []error
	for _, each := range d.of(node) {
		failed = append(failed, each.attach())
	}
	return errors.Join(failed...)
}

// withoutDisks returns the mounts that are not those of disks.
func (d *disks) withoutDisks(node string, mounts []nodefs.Mount) []nodefs.Mount {
	own := d.of(node)
	if len(own) == 0 {
		return mounts
	}
	return slices.DeleteFunc(slices.Clone(mounts), func(m nodefs.Mount) bool {
		return slices.ContainsFunc(own, func(disk attachedDisk) bool { return disk.at == m.Path })
	})
}

// addRAMDisk mounts a RAM disk.
func (d *disks) addRAMDisk(node string, machine hostpath.Machine, disk Disk) error {
	added := attachedDisk{at: machine.Path(disk.Path), attach: func() error {
		return machine.FS.MountTmpfs(machine.Path(disk.Path), disk.SizeBytes)
	}}
	if err := machine.FS.MkdirAll(added.at); err != nil {
		return err
	}
	if err := added.attach(); err != nil {
		return errors.Join(err, machine.FS.Remove(added.at))
	}
	d.add(node, added)
	return nil
}

// deviceFile creates the file over which a device node is bound.
func deviceFile(machine hostpath.Machine, disk Disk) (at string, err error) {
	at = machine.Path(disk.Path)
	if err := machine.FS.MkdirAll(path.Dir(at)); err != nil {
		return "", err
	}
	return at, machine.FS.WriteFile(at, nil)
}

func (d *arrayDriver) addDisk(node string, machine hostpath.Machine, disk Disk) error {
	if !disk.Block {
		return d.disks.addRAMDisk(node, machine, disk)
	}
	at, err := deviceFile(machine, disk)
	if err != nil {
		return err
	}
	memory, device := d.nodes[node], "disk "+disk.Path
	memory.SetDeviceSize(device, disk.SizeBytes)
	added := attachedDisk{at: at, attach: func() error { return memory.MountDevice(device, at, false) }}
	if err := added.attach(); err != nil {
		return errors.Join(err, machine.FS.Remove(at))
	}
	d.disks.add(node, added)
	return nil
}

// disksDir is the directory of the files behind the block devices of a node, below its root.
const disksDir = ".disks"

func (d *blockDriver) addDisk(node string, machine hostpath.Machine, disk Disk) error {
	if !disk.Block {
		return d.disks.addRAMDisk(node, machine, disk)
	}
	at, err := deviceFile(machine, disk)
	if err != nil {
		return err
	}
	image, err := newImage(filepath.Join(machine.Root, disksDir), disk.SizeBytes)
	if err != nil {
		return errors.Join(err, machine.FS.Remove(at))
	}
	ctx := context.Background()
	device, err := loopdev.Bind(ctx, image, "volsim:disk", false)
	if err != nil {
		return errors.Join(err, os.Remove(image), machine.FS.Remove(at))
	}
	bound, err := loopdev.At(device)
	added := attachedDisk{at: at, loop: bound, attach: func() error { return d.nodes[node].BindDevice(device, at, false) }}
	if err == nil {
		err = added.attach()
	}
	if err != nil {
		return errors.Join(err, loopdev.Unbind(ctx, bound), os.Remove(image), machine.FS.Remove(at))
	}
	d.disks.add(node, added)
	return nil
}

// newImage creates a sparse file.
func newImage(dir string, size int64) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, "")
	if err != nil {
		return "", err
	}
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// releaseDisks unbinds the loop devices of all disks. Nothing is mounted any more.
func (d *blockDriver) releaseDisks(ctx context.Context) error {
	d.disks.mu.Lock()
	defer d.disks.mu.Unlock()
	var failed []error
	for node, of := range d.disks.byNode {
		for _, each := range of {
			if each.loop != (loopdev.Binding{}) {
				failed = append(failed, loopdev.Unbind(ctx, each.loop))
			}
		}
		delete(d.disks.byNode, node)
	}
	return errors.Join(failed...)
}
