package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A blockDriver is a CSI driver on devices of this machine, with nodes in directories of it.
type blockDriver struct {
	*blockcsi.Driver
	driverName  string
	hasTopology bool // each volume can be used on one node only
	dir         string
	ownsDir     bool     // dir was created here; close removes it
	ownPaths    []string // the driver's own paths in dir; close removes them
	nodes       map[string]*nodefs.Real
	roots       []string // of the nodes
	// reset releases the devices of a node's volumes.
	reset func(ctx context.Context, node string) error
	// listResources returns what the driver still holds; destroy releases it.
	listResources func(ctx context.Context) ([]string, error)
	destroy       func(ctx context.Context) error
}

// newBlockDriver returns a driver without devices. Everything is below dir, or below a new
// temporary directory if dir is empty.
func newBlockDriver(dir string) (*blockDriver, error) {
	d := &blockDriver{dir: dir, nodes: map[string]*nodefs.Real{}}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "volsim-")
		if err != nil {
			return nil, fmt.Errorf("directory for volumes: %w", err)
		}
		d.dir, d.ownsDir = temporary, true
	} else if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("directory for volumes %q does not exist or is not a directory; create it first", dir)
	}
	return d, nil
}

// newLoopDriver returns the driver on loop devices over files below dir.
func newLoopDriver(dir string) (*blockDriver, error) {
	d, err := newBlockDriver(dir)
	if err != nil {
		return nil, err
	}
	images := filepath.Join(d.dir, "volumes")
	d.driverName = loop.DriverName
	devices, err := loop.New(loop.Config{Dir: images, AnyParameters: true})
	if err != nil {
		return nil, errors.Join(err, d.removeDir())
	}
	d.Driver, d.reset = devices.Driver, devices.Reset
	d.destroy = func(context.Context) error { return errors.Join(devices.Close(), os.Remove(images)) }
	d.listResources = func(context.Context) ([]string, error) {
		files, err := filepath.Glob(filepath.Join(images, "*"))
		for i, file := range files {
			files[i] = "file " + file
		}
		return files, err
	}
	return d, nil
}

// diskBytes is the size of a node's disk. The file is sparse: it takes only the space of what is
// written.
const diskBytes = 16 << 30

// newLVMDriver returns the driver on logical volumes, with a disk below dir and a volume group per
// node.
func newLVMDriver(ctx context.Context, dir string, nodes int) (*blockDriver, error) {
	d, err := newBlockDriver(dir)
	if err != nil {
		return nil, err
	}
	if d.dir, err = filepath.EvalSymlinks(d.dir); err == nil {
		d.dir, err = filepath.Abs(d.dir)
	}
	if err != nil {
		return nil, err
	}
	d.driverName, d.hasTopology = lvm.DriverName, true
	cfg := lvm.Config{AnyParameters: true}
	// LVM acts on what carries its own system ID. Device-mapper's group names are unique per
	// machine.
	mark := fmt.Sprintf("volsim-%x", sha256.Sum256([]byte(d.dir)))[:len("volsim-")+12]
	for i := range nodes {
		name := nodeName(i)
		private, disk := filepath.Join(d.dir, "lvm-"+name), filepath.Join(d.dir, "disk-"+name)
		d.ownPaths = append(d.ownPaths, private, disk)
		cfg.Nodes = append(cfg.Nodes, lvm.NodeConfig{
			Name: name, LVM: lvm2.Config{Directory: private, SystemID: mark}, Group: mark + "-" + name,
			Files: []lvm.File{{Path: disk, SizeBytes: diskBytes}},
		})
	}
	devices, err := lvm.New(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, d.cleanUpLVM(ctx, cfg), d.removeDir())
	}
	d.Driver, d.reset, d.destroy, d.listResources = devices.Driver, devices.Reset, devices.Destroy, d.listVolumes
	return d, nil
}

// cleanUpLVM removes the remains of a driver whose creation failed: the volume groups of the first
// nodes and loop devices.
func (d *blockDriver) cleanUpLVM(ctx context.Context, cfg lvm.Config) error {
	for cfg.Nodes = cfg.Nodes[:len(cfg.Nodes)-1]; len(cfg.Nodes) > 0; cfg.Nodes = cfg.Nodes[:len(cfg.Nodes)-1] {
		if devices, err := lvm.New(ctx, cfg); err == nil {
			if err := devices.Destroy(ctx); err != nil {
				return err
			}
			break
		}
	}
	bound, err := loopdev.List(func(backing string) bool {
		return strings.HasPrefix(backing, filepath.Join(d.dir, "disk-"))
	})
	for _, each := range bound {
		err = errors.Join(err, loopdev.Unbind(ctx, each))
	}
	return err
}

// listVolumes returns the volumes, the snapshots and the devices that belong to neither.
func (d *blockDriver) listVolumes(ctx context.Context) ([]string, error) {
	volumes, err := d.Driver.Controller().ListVolumes(ctx, &csispec.ListVolumesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var resources []string
	for _, entry := range volumes.GetEntries() {
		resources = append(resources,
			fmt.Sprintf("volume %s at %v", entry.GetVolume().GetVolumeId(), entry.GetVolume().GetAccessibleTopology()))
	}
	snapshots, err := d.Driver.Controller().ListSnapshots(ctx, &csispec.ListSnapshotsRequest{})
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, entry := range snapshots.GetEntries() {
		resources = append(resources, "snapshot "+entry.GetSnapshot().GetSnapshotId())
	}
	orphans, err := d.Orphans(ctx)
	return append(resources, orphans...), err
}

func (d *blockDriver) name() string   { return d.driverName }
func (d *blockDriver) topology() bool { return d.hasTopology }

func (d *blockDriver) controller(r grpc.ServiceRegistrar) {
	csispec.RegisterIdentityServer(r, d.Identity())
	csispec.RegisterControllerServer(r, d.Controller())
}

func (d *blockDriver) addNode(node string) (nodefs.FS, string, csi.RegisterFunc, error) {
	root := filepath.Join(d.dir, node)
	fs, err := nodefs.NewReal(root)
	if err != nil {
		return nil, "", nil, err
	}
	d.nodes[node], d.roots = fs, append(d.roots, root)
	server := d.Node(node, fs)
	return fs, root, func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, d.Identity())
		csispec.RegisterNodeServer(r, server)
	}, nil
}

func (d *blockDriver) boot(node string) error {
	return errors.Join(d.nodes[node].UnmountAll(), d.reset(context.Background(), node))
}

func (d *blockDriver) leaks() ([]string, error) {
	leaks, err := d.listResources(context.Background())
	if err != nil {
		return nil, err
	}
	for _, node := range slices.Sorted(maps.Keys(d.nodes)) {
		mounts, err := mountLeaks(d.nodes[node])
		if err != nil {
			return nil, err
		}
		leaks = append(leaks, mounts...)
	}
	return leaks, nil
}

// close unmounts, detaches and removes. What cannot be removed keeps its files and is reported in
// the error.
func (d *blockDriver) close() error {
	var errs []error
	for _, fs := range d.nodes {
		errs = append(errs, fs.UnmountAll())
	}
	errs = append(errs, d.destroy(context.Background()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up %s: %w", d.dir, err)
	}
	return d.removeDir()
}

// removeDir removes the directories created here. Nothing is mounted below them any more.
func (d *blockDriver) removeDir() error {
	if d.ownsDir {
		return os.RemoveAll(d.dir)
	}
	for _, path := range append(d.roots, d.ownPaths...) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
