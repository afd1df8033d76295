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
	blockPool
	more    []blockPool // of Config.MoreDevices
	dir     string
	ownsDir bool       // dir was created here; close removes it
	run     rundir.Run // ours
	record  *rundir.Dir
	cleared []string // see Cleared
	nodes   map[string]*nodefs.Real
	disks   disks
	groups  []*volumegroup.LVM // of local storage
}

// A blockPool is a CSI driver with what backs its volumes.
type blockPool struct {
	*blockcsi.Driver
	kind        Devices
	driverName  string
	hasTopology bool           // each volume can be used on one node only
	health      healthServices // set if the services report the health of volumes; see Config.HealthMonitor
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
	if slices.Contains(kindsOf(kind, cfg), LVM) || cfg.LocalStorage {
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

// kindsOf returns the kinds of all devices of a cluster.
func kindsOf(kind Devices, cfg Config) []Devices { return append([]Devices{kind}, cfg.MoreDevices...) }

// pathsOf returns the names that a cluster creates in its directory.
func pathsOf(kind Devices, cfg Config) []string {
	names := []string{exportsName}
	kinds := kindsOf(kind, cfg)
	if slices.Contains(kinds, Loop) {
		names = append(names, imagesName)
	}
	for i := range cfg.Nodes {
		if cfg.LocalStorage {
			names = append(names, groupsPrefix+nodeName(i))
		}
		if slices.Contains(kinds, LVM) {
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

// openBlockDriver returns the driver on devices of a kind, with those of Config.MoreDevices. Everything is
// below dir.
func openBlockDriver(ctx context.Context, kind Devices, cfg Config) (*blockDriver, error) {
	d, err := newBlockDriver(ctx, kind, cfg)
	if err != nil {
		return nil, err
	}
	if d.blockPool, err = d.openPool(ctx, kind, cfg); err != nil {
		return nil, d.abandon(ctx, err)
	}
	for _, kind := range cfg.MoreDevices {
		pool, err := d.openPool(ctx, kind, cfg)
		if err != nil {
			return nil, d.abandon(ctx, err)
		}
		d.more = append(d.more, pool)
	}
	return d, nil
}

// openPool creates what backs the volumes of a driver.
func (d *blockDriver) openPool(ctx context.Context, kind Devices, cfg Config) (pool blockPool, err error) {
	if kind == LVM {
		pool, err = d.openLVM(ctx, cfg.Nodes)
	} else {
		pool, err = d.openLoop()
	}
	if err == nil && cfg.HealthMonitor {
		pool.health = newHealthServices(pool.Driver)
	}
	return pool, err
}

// openLoop creates the directory of the files behind loop devices.
func (d *blockDriver) openLoop() (blockPool, error) {
	images := filepath.Join(d.dir, imagesName)
	devices, err := loop.New(loop.Config{Dir: images, AnyParameters: true})
	if err != nil {
		return blockPool{}, err
	}
	return blockPool{
		Driver: devices.Driver, kind: Loop, driverName: loop.DriverName, reset: devices.Reset,
		destroy: func(context.Context) error { return errors.Join(devices.Close(), os.Remove(images)) },
		listResources: func(context.Context) ([]string, error) {
			files, err := filepath.Glob(filepath.Join(images, "*"))
			for i, file := range files {
				files[i] = "file " + file
			}
			return files, err
		},
	}, nil
}

// diskBytes is the size of a node's disk. The file is sparse: it takes only the space of what is
// written.
const diskBytes = 16 << 30

// openLVM creates a disk and a volume group per node.
func (d *blockDriver) openLVM(ctx context.Context, nodes int) (blockPool, error) {
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
		return blockPool{}, err
	}
	pool := blockPool{
		Driver: devices.Driver, kind: LVM, driverName: lvm.DriverName, hasTopology: true,
		reset: devices.Reset, destroy: devices.Destroy,
	}
	pool.listResources = pool.listVolumes
	return pool, nil
}

// pools returns what backs the volumes of the drivers, as far as it is open.
func (d *blockDriver) pools() []blockPool {
	if d.Driver == nil {
		return nil
	}
	return append([]blockPool{d.blockPool}, d.more...)
}

// abandon removes the remains of a driver whose creation failed with err.
func (d *blockDriver) abandon(ctx context.Context, err error) error {
	for _, pool := range d.pools() {
		err = errors.Join(err, pool.destroy(ctx))
	}
	r := remains{dir: d.dir, run: &d.run}
	if failed := r.release(ctx); failed != nil {
		return errors.Join(err, failed, d.record.Unlock())
	}
	return errors.Join(err, d.removeDir())
}

// listVolumes returns the volumes, the snapshots and the devices that belong to neither.
func (d *blockPool) listVolumes(ctx context.Context) ([]string, error) {
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

func (d *blockPool) controller(r grpc.ServiceRegistrar) {
	csispec.RegisterIdentityServer(r, d.Identity())
	controller := d.Controller()
	if d.health != nil {
		controller = d.health.Controller()
	}
	csispec.RegisterControllerServer(r, controller)
	csispec.RegisterGroupControllerServer(r, d.GroupController())
}

func (d *blockDriver) addNode(node string) (nodefs.FS, string, csi.RegisterFunc, error) {
	root := filepath.Join(d.dir, node)
	fs, err := nodefs.NewReal(root)
	if err != nil {
		return nil, "", nil, err
	}
	d.nodes[node] = fs
	return fs, root, d.nodeServices(node, fs), nil
}

// nodeServices returns what registers the driver's services on a node.
func (d *blockPool) nodeServices(node string, fs *nodefs.Real) csi.RegisterFunc {
	server := d.Node(node, fs)
	if d.health != nil {
		server = d.health.Node(node, fs)
	}
	return func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, d.Identity())
		csispec.RegisterNodeServer(r, server)
	}
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
	errs := []error{d.nodes[node].UnmountAll()}
	for _, pool := range d.pools() {
		errs = append(errs, pool.reset(context.Background(), node))
	}
	return errors.Join(append(errs, d.disks.reattach(node))...)
}

func (d *blockDriver) leaks() ([]string, error) {
	var leaks []string
	for _, pool := range d.pools() {
		more, err := pool.listResources(context.Background())
		if err != nil {
			return nil, err
		}
		leaks = append(leaks, more...)
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
	errs = append(errs, d.releaseDisks(context.Background()))
	for _, pool := range d.pools() {
		errs = append(errs, pool.destroy(context.Background()))
	}
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
