package blockcsi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// DeviceKey is the publish context key of the device node. The controller service sets it and the
// node service expects it.
const DeviceKey = "devicePath"

// Config configures a Driver.
type Config struct {
	// Name is the driver name that storage classes use, Version the driver's version.
	Name, Version string
	// Pools are where volumes are stored: one for any node, or one for each of several nodes.
	Pools []Pool
	// TopologyKey is the topology key whose value is a node's name. It is required if pools belong
	// to a node. Empty means no topology.
	TopologyKey string
	// NodeAttaches makes the node service attach volumes when it stages them, and detach them when
	// it unstages them. The controller service then neither publishes nor unpublishes.
	NodeAttaches bool
	// MountGroup makes the node service apply a pod's group to volumes (VOLUME_MOUNT_GROUP).
	// Otherwise the kubelet does.
	MountGroup bool
	// AnyParameters accepts storage class parameters that no pool knows. It is for a driver that
	// replaces another one under its name.
	AnyParameters bool
	// Probe returns nil if the driver can work here, or else an error that names what is missing.
	Probe func() error
}

// Driver is a CSI driver. All methods and services may be called concurrently; calls for one volume
// are serialized. Create one with New.
type Driver struct {
	cfg   Config
	offer csireq.Features
	caps  Capabilities // of the first pool, since all are of one kind
	locks volumeLocks

	mu        sync.Mutex
	nodes     map[string]bool // nodes that Node was called for
	lastPools map[string]Pool // the last known pool of a volume, tried first
}

// New returns a driver. It only calls methods of pools whose result is constant.
func New(cfg Config) (*Driver, error) {
	if len(cfg.Pools) == 0 {
		return nil, errors.New("blockcsi: no pools configured")
	}
	for _, pool := range cfg.Pools {
		if pool.Node() != "" && cfg.TopologyKey == "" {
			return nil, fmt.Errorf("blockcsi: pool of node %q requires a TopologyKey", pool.Node())
		}
	}
	able := cfg.Pools[0].Capabilities()
	return &Driver{
		cfg: cfg, caps: able,
		offer: csireq.Features{
			FSTypes: able.FSTypes, Block: true,
			ContentSources: able.CanCopy, Modify: len(able.Settings) > 0,
		},
		nodes: map[string]bool{}, lastPools: map[string]Pool{},
	}, nil
}

// Identity returns the identity service. Its Probe calls Config.Probe.
func (d *Driver) Identity() csi.IdentityServer {
	return &csireq.Identity{
		Name: d.cfg.Name, Version: d.cfg.Version, Ready: d.cfg.Probe,
		Topology: d.cfg.TopologyKey != "", Groups: d.caps.groups(),
	}
}

// GroupController returns the group controller service. Register it only if volumes can be copied.
func (d *Driver) GroupController() csi.GroupControllerServer { return &groupController{driver: d} }

// Controller returns the controller service.
func (d *Driver) Controller() csi.ControllerServer { return &controller{driver: d} }

// Node returns the node service of a node and registers the node, so that volumes can be attached
// to it. Call it again when the node's driver restarts.
func (d *Driver) Node(nodeID string, fs *nodefs.Real) csi.NodeServer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[nodeID] = true
	for _, pool := range d.cfg.Pools {
		pool.RegisterNode(nodeID)
	}
	return &nodeService{driver: d, id: nodeID, fs: fs}
}

// hasNode reports whether Node was called for a node.
func (d *Driver) hasNode(nodeID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[nodeID]
}

// find returns a complete volume or snapshot and its pool, or NotFound. If a pool cannot be read
// and no other has the volume, find returns that pool's error.
func (d *Driver) find(ctx context.Context, id string) (Volume, Pool, error) {
	volume, pool, err := d.lookup(ctx, id)
	if err == nil && volume.Unfinished {
		err = notFound(id)
	}
	if err == nil && volume.Group != "" {
		err = d.checkComplete(ctx, volume)
	}
	return volume, pool, err
}

// lockAndFind locks a volume and finds it. On an error nothing is locked.
func (d *Driver) lockAndFind(ctx context.Context, id string) (volume Volume, pool Pool, unlock func(), err error) {
	unlock, err = d.locks.lock(ctx, id)
	if err != nil {
		return Volume{}, nil, nil, err
	}
	volume, pool, err = d.find(ctx, id)
	if err != nil {
		unlock()
		return Volume{}, nil, nil, err
	}
	return volume, pool, unlock, nil
}

// lookup works like find for volumes that may be unfinished.
func (d *Driver) lookup(ctx context.Context, id string) (Volume, Pool, error) {
	failed := notFound(id)
	for _, pool := range d.poolsFor(id) {
		volume, err := pool.Volume(ctx, id)
		switch {
		case err == nil:
			d.remember(id, pool)
			return volume, pool, nil
		case status.Code(err) != codes.NotFound:
			failed = csireq.PathStatus(err)
		}
	}
	return Volume{}, nil, failed
}

// poolsFor returns all pools, starting with the last known pool of a volume.
func (d *Driver) poolsFor(id string) []Pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.lastPools[id]
	if last == nil {
		return d.cfg.Pools
	}
	pools := []Pool{last}
	for _, pool := range d.cfg.Pools {
		if pool != last {
			pools = append(pools, pool)
		}
	}
	return pools
}

func (d *Driver) remember(id string, pool Pool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastPools[id] = pool
}

func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lastPools, id)
}

// Recover completes or undoes what a killed driver left unfinished. It returns one line for each
// action. Call it before the services are used.
func (d *Driver) Recover(ctx context.Context) ([]string, error) {
	all, err := d.thaw(ctx)
	if err != nil {
		return all, err
	}
	for _, pool := range d.cfg.Pools {
		done, err := pool.Recover(ctx)
		all = append(all, done...)
		if err != nil {
			return all, err
		}
	}
	done, err := d.recoverGroups(ctx)
	return append(all, done...), err
}

// Orphans returns devices, files and volumes that carry the driver's mark but belong to no volume.
// Each line says how to remove one.
func (d *Driver) Orphans(ctx context.Context) ([]string, error) {
	var all []string
	for _, pool := range d.cfg.Pools {
		found, err := pool.Orphans(ctx)
		all = append(all, found...)
		if err != nil {
			return all, err
		}
	}
	rest, err := d.incompleteMembers(ctx)
	for _, each := range rest {
		all = append(all, each.ID+" belongs to group "+each.Group+
			", which is incomplete: restart the driver to remove it")
	}
	return all, err
}
