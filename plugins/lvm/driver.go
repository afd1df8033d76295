package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/blockcsi"
)

const (
	// DriverName is the driver's name when Config leaves it out.
	DriverName = "lvm.csi.volsim.dev"
	// TopologyKey is the key of the topology segment that is a node's name.
	TopologyKey = "topology.lvm.csi.volsim.dev/node"

	driverVersion = "0.1.0"
	metadataBytes = 8 << 20 // for some thousand volumes with their tags
	// fileCopies is how many of a volume group's disks keep its metadata where they are
	// all files, which are there together or not at all.
	fileCopies = 2
)

// Config says what volume groups a Driver has.
type Config struct {
	// DriverName is the name that storage classes use; empty is DriverName.
	DriverName string
	// Nodes are the nodes that volumes are for, each with its disks.
	Nodes []NodeConfig
	// NodeAttaches and MountGroup are those of blockcsi.Config, and AnyParameters.
	NodeAttaches, MountGroup, AnyParameters bool
}

// NodeConfig is a node and its volume group.
type NodeConfig struct {
	// Name is the node's id.
	Name string
	// LVM is the node's private LVM.
	LVM lvm2.Config
	// Group is the volume group's name; empty is GroupName's. It is made of the disks
	// if it is not there, and given those that it does not have.
	Group string
	// Files are disks that are files of this machine: sparse ones are made.
	Files []File
	// Devices are disks of this machine: empty, or the volume group's already.
	Devices []string
	// Thin says how thin volumes are made; the zero value is a pool of half of the
	// volume group when the first is wanted, which promises no more than it has.
	Thin Thin
}

// File is a disk that is a file.
type File struct {
	Path      string
	SizeBytes int64 // of one that is made
}

// Thin bounds thin volumes.
type Thin struct {
	// PoolBytes is the size of the pool; 0 is half of the volume group.
	PoolBytes int64
	// OvercommitRatio is how many bytes are promised for each byte of the pool; 0 is 1.
	OvercommitRatio float64
}

// Driver is a CSI driver on logical volumes. Everything may be called
// concurrently; calls for one volume wait for one another. Make one with New.
type Driver struct {
	*blockcsi.Driver
	pools []*pool
}

// New opens the volume groups of all nodes, or makes them. Where that fails
// nothing stays open.
func New(ctx context.Context, cfg Config) (*Driver, error) {
	if len(cfg.Nodes) == 0 {
		return nil, errors.New("lvm: a driver needs a node with a disk")
	}
	d := &Driver{}
	shared := blockcsi.Config{
		Name: cmp.Or(cfg.DriverName, DriverName), Version: driverVersion, TopologyKey: TopologyKey, Probe: Probe,
		NodeAttaches: cfg.NodeAttaches, MountGroup: cfg.MountGroup, AnyParameters: cfg.AnyParameters,
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
	group, err := openGroup(ctx, system, cfg)
	if err != nil {
		return nil, errors.Join(err, system.Close())
	}
	report, err := group.Report(ctx)
	if err != nil {
		return nil, errors.Join(err, system.Close())
	}
	notes := blockcsi.AttachmentRecords{Dir: filepath.Join(cfg.LVM.Directory, attachmentsFolder)}
	if err = os.MkdirAll(notes.Dir, 0o700); err == nil {
		err = os.WriteFile(filepath.Join(cfg.LVM.Directory, groupFile), []byte(group.Name()), 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, system.Close())
	}
	return &pool{
		node: cfg.Name, system: system, group: group, caps: group.Capabilities(), thin: cfg.Thin, attachments: notes, extentBytes: report.ExtentSize,
	}, nil
}

// openGroup gives the system its disks and returns the volume group on them. Files that
// are not there are made last, once it is known that they are no disks of the volume
// group that somebody has taken away.
func openGroup(ctx context.Context, system *lvm2.System, cfg NodeConfig) (*lvm2.VolumeGroup, error) {
	if len(cfg.Files)+len(cfg.Devices) == 0 {
		return nil, errors.New("no disk: give it a device or a file")
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

// existingGroup returns the volume group of a name, if the disks that there are have it. It
// is an error if they have others, or not all of it, or it was there before; it is nil
// if it is to be made.
func existingGroup(ctx context.Context, system *lvm2.System, cfg NodeConfig, name string) (*lvm2.VolumeGroup, error) {
	there, err := system.VolumeGroups(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(there, name) {
		if cfg.Group == "" && len(there) > 0 {
			return nil, fmt.Errorf("its disks have volume group %s, and not %s, which is this node's by default: name it (--group %s)",
				strings.Join(there, ", "), name, there[0])
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

// groupFile is below the private LVM's directory, and holds the name of the volume group
// that the node has: without its disks it is not to be taken for one that has none yet.
const groupFile = "volume-group"

// checkNew gives an error if the volume group that is about to be made was there before.
func checkNew(cfg NodeConfig, name string) error {
	file := filepath.Join(cfg.LVM.Directory, groupFile)
	before, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(before) != name {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("volume group %s: %w: it was on this node's disks and is on none of those that are there: bring them back, or remove %s to begin anew",
		name, lvm2.ErrMissingDevice, file)
}

// Close gives the volume groups back as they are: volumes stay, attached ones
// attached.
func (d *Driver) Close() error {
	var failed []error
	for _, each := range d.pools {
		failed = append(failed, each.system.Close())
	}
	return errors.Join(failed...)
}

// Reset takes the devices of a node's volumes away, as it is when the node's machine
// was started again: the volumes stay attached, and have devices again once they
// are staged. Unmount first; what is in use stays, and the error names it.
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

// Destroy removes all volumes, the volume groups and the loop devices of files,
// whose paths it leaves. Unmount first: what is in use stays, and the error names it.
func (d *Driver) Destroy(ctx context.Context) error {
	var failed []error
	for _, each := range d.pools {
		failed = append(failed, each.destroy(ctx), each.system.Close())
	}
	return errors.Join(failed...)
}
