package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/lvm2"
)

const (
	// DriverName is the default of Config.DriverName.
	DriverName = "lvm.csi.volsim.dev"
	// TopologyKey is the topology key whose value is a node's name.
	TopologyKey = "topology.lvm.csi.volsim.dev/node"

	driverVersion = "0.1.0"
	metadataBytes = 8 << 20 // for some thousand volumes with their tags
	// fileCopies is the number of a volume group's disks that keep its metadata if all are files,
	// which are either all present or all missing.
	fileCopies = 2
)

// Config configures a Driver.
type Config struct {
	// DriverName is the name that storage classes use; empty means the constant DriverName.
	DriverName string
	// Nodes are the nodes with volumes, each with its disks.
	Nodes []NodeConfig
	// NodeAttaches makes the node service attach volumes when it stages them, instead of the
	// controller service. MountGroup makes the node service apply a pod's group to volumes, instead
	// of the kubelet. AnyParameters accepts storage class parameters that the driver does not know,
	// for a driver that replaces another one under its name.
	NodeAttaches, MountGroup, AnyParameters bool
}

// NodeConfig configures a node and its volume group.
type NodeConfig struct {
	// Name is the node's ID.
	Name string
	// LVM is the node's private LVM.
	LVM LVMConfig
	// Group is the name of the volume group. Empty means "volsim-" and the node's name; a long
	// name, or one that LVM does not accept, is replaced by a prefix and a hash. A missing volume
	// group is created from the disks, and an existing one is extended by those that it lacks.
	Group string
	// Files are disks that are files of this machine. Missing files are created sparse.
	Files []File
	// Devices are block devices of this machine. They must be empty or belong to the volume group.
	Devices []string
	// Thin configures thin volumes. The zero value is a pool of half of the volume group, created
	// with the first thin volume and without overcommit.
	Thin Thin
}

// LVMConfig configures a private LVM. Directory and SystemID are required.
type LVMConfig = lvm2.Config

// File is a disk that is a file.
type File struct {
	Path      string
	SizeBytes int64 // of a missing file
}

// Thin configures the pool of thin volumes.
type Thin struct {
	// PoolBytes is the size of the pool in bytes; 0 means half of the volume group.
	PoolBytes int64
	// OvercommitRatio is the provisioned size per byte of the pool: at least 1, or 0, which means 1.
	OvercommitRatio float64
}

// check returns an error for an invalid configuration.
func (t Thin) check() error {
	if r := t.OvercommitRatio; r != 0 && (!(r >= 1) || math.IsInf(r, 0)) { // NaN compares as false
		return fmt.Errorf("invalid overcommit ratio %v: want a number of at least 1", r)
	}
	return nil
}

// Driver is a CSI driver on logical volumes. All methods and services may be called concurrently;
// calls for one volume are serialized. Create one with New.
type Driver struct {
	*blockcsi.Driver
	pools []*pool
}

// New opens or creates the volume groups of all nodes. On an error nothing stays open.
func New(ctx context.Context, cfg Config) (*Driver, error) {
	if len(cfg.Nodes) == 0 {
		return nil, errors.New("lvm: no nodes configured")
	}
	d := &Driver{}
	shared := blockcsi.Config{
		Name: cmp.Or(cfg.DriverName, DriverName), Version: driverVersion, TopologyKey: TopologyKey, Probe: Probe,
		NodeAttaches: cfg.NodeAttaches, MountGroup: cfg.MountGroup, AnyParameters: cfg.AnyParameters,
	}
	for _, node := range cfg.Nodes {
		if err := node.Thin.check(); err != nil {
			return nil, fmt.Errorf("lvm: node %s: %w", node.Name, err)
		}
	}
	for _, node := range cfg.Nodes {
		opened, err := openNode(ctx, node)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lvm: node %s: %w", node.Name, err), d.Close())
		}
		d.pools = append(d.pools, opened)
		shared.Pools = append(shared.Pools, opened)
	}
	var err error
	if d.Driver, err = blockcsi.New(shared); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openNode opens the volume group of a node.
func openNode(ctx context.Context, cfg NodeConfig) (*pool, error) {
	cfg.LVM.MetadataSize = cmp.Or(cfg.LVM.MetadataSize, metadataBytes)
	system, err := lvm2.Open(cfg.LVM)
	if err != nil {
		return nil, err
	}
	var opened *pool
	if err = system.AwaitCommands(ctx); err == nil {
		opened, err = openPool(ctx, system, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, system.Abandon(context.WithoutCancel(ctx)))
	}
	return opened, nil
}

// openPool opens the volume group of a node in its private LVM.
func openPool(ctx context.Context, system *lvm2.System, cfg NodeConfig) (*pool, error) {
	group, err := openGroup(ctx, system, cfg)
	if err != nil {
		return nil, err
	}
	report, err := group.Report(ctx)
	if err != nil {
		return nil, err
	}
	notes := blockcsi.AttachmentRecords{Dir: filepath.Join(cfg.LVM.Directory, attachmentsFolder)}
	if err = os.MkdirAll(notes.Dir, 0o700); err == nil {
		err = checkState(report, notes)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(cfg.LVM.Directory, groupFile), []byte(group.Name()), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return &pool{
		node: cfg.Name, system: system, group: group, caps: group.Capabilities(), thin: cfg.Thin, attachments: notes,
		extentBytes: report.ExtentSize,
	}, nil
}

// checkState returns an error for each volume and attachment that this version has not written.
func checkState(report *lvm2.Report, attachments blockcsi.AttachmentRecords) error {
	var failed []error
	for _, lv := range report.LogicalVolumes {
		failed = append(failed, checkTags(lv))
	}
	_, err := attachments.List()
	return errors.Join(append(failed, err)...)
}

// openGroup adds the disks to the system and returns the volume group on them. Missing files are
// created last, when it is certain that they are not missing disks of the volume group.
func openGroup(ctx context.Context, system *lvm2.System, cfg NodeConfig) (*lvm2.VolumeGroup, error) {
	if len(cfg.Files)+len(cfg.Devices) == 0 {
		return nil, errors.New("no disk: configure a device or a file")
	}
	var away []File
	for _, file := range cfg.Files {
		if _, err := os.Stat(file.Path); errors.Is(err, fs.ErrNotExist) {
			away = append(away, file)
		} else if _, err := system.AddFile(ctx, file.Path, file.SizeBytes); err != nil {
			return nil, err
		}
	}
	for _, path := range cfg.Devices {
		if _, err := system.AddDevice(ctx, path); err != nil {
			return nil, err
		}
	}
	name := cmp.Or(cfg.Group, groupName(cfg.Name))
	group, err := existingGroup(ctx, system, cfg, name)
	if err != nil {
		return nil, err
	}
	for _, file := range away {
		if _, err := system.AddFile(ctx, file.Path, file.SizeBytes); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, disk := range system.Disks() {
		names = append(names, disk.Name)
	}
	if group != nil {
		return group, group.ExtendGroup(ctx, names...)
	}
	spec := lvm2.GroupSpec{Name: name, Disks: names}
	if len(cfg.Devices) == 0 {
		spec.MetadataCopies = fileCopies
	}
	return system.CreateVolumeGroup(ctx, spec)
}

// existingGroup returns the volume group of a name on the disks, or nil if it must be created. It
// returns an error if the disks have other volume groups, if some of its disks are missing, or if
// it existed before.
func existingGroup(ctx context.Context, system *lvm2.System, cfg NodeConfig, name string) (*lvm2.VolumeGroup, error) {
	existing, err := system.VolumeGroups(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(existing, name) {
		if cfg.Group == "" && len(existing) > 0 {
			return nil, fmt.Errorf(
				"the disks have volume group %s, not this node's default %s: set the name (--group %s)",
				strings.Join(existing, ", "), name, existing[0])
		}
		return nil, checkNew(cfg, name)
	}
	group, err := system.VolumeGroup(ctx, name)
	if err != nil {
		return nil, err
	}
	report, err := group.Report(ctx)
	if err != nil {
		return nil, err
	}
	for _, disk := range report.PhysicalVolumes {
		if disk.Missing {
			return nil, fmt.Errorf("volume group %s: %w: physical volume %s: bring it back",
				name, lvm2.ErrMissingDevice, disk.UUID)
		}
	}
	return group, nil
}

// groupFile is a file in the private LVM's directory with the name of the node's volume group. It
// distinguishes a node without disks from a new one.
const groupFile = "volume-group"

// checkNew returns an error if the volume group to create existed before.
func checkNew(cfg NodeConfig, name string) error {
	file := filepath.Join(cfg.LVM.Directory, groupFile)
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(before) != name {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("volume group %s: %w: it existed on this node but is on none of its disks: "+
		"bring them back, or remove %s to start over",
		name, lvm2.ErrMissingDevice, file)
}

// Close releases the volume groups. Volumes stay, and attached ones stay attached. The loop devices
// of disks stay as long as a volume of the node has a device.
func (d *Driver) Close() error {
	ctx := context.Background() //nolint:forbidigo // each LVM command is brief, and each wait is bounded
	var failed []error
	for _, each := range d.pools {
		failed = append(failed, each.releaseDisks(ctx), each.system.Close())
	}
	return errors.Join(failed...)
}

// Reset removes the devices of a node's volumes, as a restart of the node's machine does. The
// volumes stay attached and get new devices when they are staged. Unmount first: a device in use
// stays, and the error names it.
func (d *Driver) Reset(ctx context.Context, node string) error {
	for _, each := range d.pools {
		if each.node != node {
			continue
		}
		attached, err := each.Attachments(ctx)
		if err != nil {
			return err
		}
		for _, volume := range attached {
			if err := each.group.Deactivate(ctx, volume.VolumeID); err != nil {
				return each.status(err)
			}
		}
	}
	return nil
}

// Destroy removes all volumes, the volume groups and the loop devices of files, but not the files.
// Unmount first: what is in use stays, and the error names it.
func (d *Driver) Destroy(ctx context.Context) error {
	var failed []error
	for _, each := range d.pools {
		failed = append(failed, each.destroy(ctx), each.system.Close())
	}
	return errors.Join(failed...)
}
