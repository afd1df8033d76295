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
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/rundir"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
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
	ownsDir     bool       // dir was created here; close removes it
	run         rundir.Run // ours
	record      *rundir.Dir
	cleared     []string // see Cleared
	nodes       map[string]*nodefs.Real
	disks       disks
	groups      []*volumegroup.LVM // of local storage
	// reset releases the devices of a node's volumes.
	reset func(ctx context.Context, node string) error
	// listResources returns what the driver still holds; destroy releases it.
	listResources func(ctx context.Context) ([]string, error)
	destroy       func(ctx context.Context) error
}

// newBlockDriver returns a driver without devices. Everything is below cfg.Dir, or below a new
// temporary directory if that is empty. What an earlier run left there is removed first.
func newBlockDriver(ctx context.Context, kind Devices, cfg Config) (*blockDriver, error) {
	d := &blockDriver{dir: cfg.Dir, nodes: map[string]*nodefs.Real{}}
	if d.dir == "" {
		d.cleared = clearTemporary(ctx)
		temporary, err := os.MkdirTemp("", temporaryPrefix)
		if err != nil {
			return nil, fmt.Errorf("directory for volumes: %w", err)
		}
		d.dir, d.ownsDir = temporary, true
	} else if info, err := os.Stat(d.dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("directory for volumes %q does not exist or is not a directory; create it first", d.dir)
	}
	if err := d.takeDir(ctx, kind, cfg); err != nil {
		if d.ownsDir {
			err = errors.Join(err, os.Remove(d.dir))
		}
		return nil, err
	}
	return d, nil
}

// takeDir locks the directory, removes what an earlier run left there and records this one.
func (d *blockDriver) takeDir(ctx context.Context, kind Devices, cfg Config) (err error) {
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	if d.record, err = rundir.Lock(d.dir); err != nil {
		return err
	}
	d.run = rundir.Run{Identity: cfg.API.Identity, Devices: string(kind), Paths: pathsOf(kind, cfg)}
	if kind == LVM || cfg.LocalStorage {
		d.dir = d.record.Path()
		// LVM acts on what carries its own system ID. Device-mapper's group names are unique per
		// machine.
		d.run.SystemID = fmt.Sprintf("volsim-%x", sha256.Sum256([]byte(d.dir)))[:len("volsim-")+12]
	}
	if d.record.Earlier() != nil {
		line, err := clearRun(ctx, d.record)
		if err != nil {
			return errors.Join(err, d.record.Unlock())
		}
		d.cleared = append(d.cleared, line)
	}
	if err = d.checkFree(); err == nil {
		err = d.record.Record(d.run)
	}
	if err != nil {
		err = errors.Join(err, d.record.Release())
	}
	return err
}

// pathsOf returns the names that a cluster creates in its directory.
func pathsOf(kind Devices, cfg Config) []string {
	names := []string{exportsName}
	if kind == Loop {
		names = append(names, imagesName)
	}
	for i := range cfg.Nodes {
		if cfg.LocalStorage {
			names = append(names, groupsPrefix+nodeName(i))
		}
		if kind == LVM {
			names = append(names, lvmPrefix+nodeName(i), diskPrefix+nodeName(i))
		}
		names = append(names, nodeName(i))
	}
	return append(names, controlPlaneName)
}

// checkFree returns an error if something exists that the cluster would create, and then remove.
func (d *blockDriver) checkFree() error {
	var taken []string
	for _, name := range d.run.Paths {
		if _, err := os.Lstat(filepath.Join(d.dir, name)); err == nil {
			taken = append(taken, name)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("directory %q has %s, and no record of a run that created it: remove it, or use another directory",
			d.dir, strings.Join(taken, ", "))
	}
	return nil
}

// newLoopDriver returns the driver on loop devices over files below dir.
func newLoopDriver(ctx context.Context, cfg Config) (*blockDriver, error) {
	d, err := newBlockDriver(ctx, Loop, cfg)
	if err != nil {
		return nil, err
	}
	images := filepath.Join(d.dir, imagesName)
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
func newLVMDriver(ctx context.Context, cfg Config) (*blockDriver, error) {
	d, err := newBlockDriver(ctx, LVM, cfg)
	if err != nil {
		return nil, err
	}
	return d, d.openLVM(ctx, cfg.Nodes)
}

// openLVM creates the volume groups.
func (d *blockDriver) openLVM(ctx context.Context, nodes int) error {
	d.driverName, d.hasTopology = lvm.DriverName, true
	cfg := lvm.Config{AnyParameters: true}
	for i := range nodes {
		name := nodeName(i)
		cfg.Nodes = append(cfg.Nodes, lvm.NodeConfig{
			Name: name, LVM: lvm2.Config{Directory: filepath.Join(d.dir, lvmPrefix+name), SystemID: d.run.SystemID},
			Group: d.run.SystemID + "-" + name,
			Files: []lvm.File{{Path: filepath.Join(d.dir, diskPrefix+name), SizeBytes: diskBytes}},
		})
	}
	devices, err := lvm.New(ctx, cfg)
	if err != nil {
		return errors.Join(err, d.cleanUpLVM(ctx))
	}
	d.Driver, d.reset, d.destroy, d.listResources = devices.Driver, devices.Reset, devices.Destroy, d.listVolumes
	return nil
}

// cleanUpLVM removes the remains of a driver whose creation failed.
func (d *blockDriver) cleanUpLVM(ctx context.Context) error {
	r := remains{dir: d.dir, run: &d.run}
	if err := r.release(ctx); err != nil {
		return errors.Join(err, d.record.Unlock())
	}
	return d.removeDir()
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
	d.nodes[node] = fs
	server := d.Node(node, fs)
	return fs, root, func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, d.Identity())
		csispec.RegisterNodeServer(r, server)
	}, nil
}

func (d *blockDriver) addMachine(name string) (hostpath.Machine, error) {
	root := filepath.Join(d.dir, name)
	fs, err := nodefs.NewReal(root)
	return hostpath.Machine{FS: fs, Root: root}, err
}

func (d *blockDriver) volumeGroups(node string) (volumegroup.Backend, error) {
	groups, err := volumegroup.OpenLVM(volumegroup.LVMConfig{
		LVM:    lvm2.Config{Directory: filepath.Join(d.dir, groupsPrefix+node), SystemID: d.run.SystemID},
		Prefix: d.run.SystemID + "-" + node + "-", Disk: d.nodes[node], Root: filepath.Join(d.dir, node),
	})
	if err != nil {
		return nil, fmt.Errorf("local storage: %w", err)
	}
	d.groups = append(d.groups, groups)
	return groups, nil
}

func (d *blockDriver) boot(node string) error {
	return errors.Join(d.nodes[node].UnmountAll(), d.reset(context.Background(), node), d.disks.reattach(node))
}

func (d *blockDriver) leaks() ([]string, error) {
	leaks, err := d.listResources(context.Background())
	if err != nil {
		return nil, err
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

// close unmounts, detaches and removes. What cannot be removed keeps its files and is reported in
// the error.
func (d *blockDriver) close() error {
	var errs []error
	for _, fs := range d.nodes {
		errs = append(errs, fs.UnmountAll())
	}
	for _, groups := range d.groups {
		errs = append(errs, groups.Close(context.Background()))
	}
	errs = append(errs, d.releaseDisks(context.Background()), d.destroy(context.Background()))
	if err := errors.Join(errs...); err != nil {
		return errors.Join(fmt.Errorf("clean up %s: %w", d.dir, err), d.record.Unlock())
	}
	return d.removeDir()
}

// removeDir removes what was created here, and the record last. Nothing is mounted any more. On an
// error the record stays, so that a later run removes the rest.
func (d *blockDriver) removeDir() error {
	for _, name := range d.run.Paths {
		if err := os.RemoveAll(filepath.Join(d.dir, name)); err != nil {
			return errors.Join(err, d.record.Unlock())
		}
	}
	err := d.record.Release()
	if d.ownsDir {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}
