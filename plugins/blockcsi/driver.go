package blockcsi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// DeviceKey is the key in the publish context under which the node service
// expects the device node, as the controller service returned it.
const DeviceKey = "devicePath"

// Config says what a Driver is.
type Config struct {
	// Name is the name that storage classes use, Version the driver's own.
	Name, Version string
	// Pools are where volumes lie: one for any node, or one for each of several.
	Pools []Pool
	// TopologyKey is the key of the segment that is a node's name. It is needed
	// where pools are of a node; empty is no topology.
	TopologyKey string
	// NodeAttaches has a node's service attach volumes as it stages them, and
	// detach them as it unstages them: the controller service then neither
	// publishes nor unpublishes.
	NodeAttaches bool
	// MountGroup has the node services give volumes to the group of a pod
	// (VOLUME_MOUNT_GROUP), which else the kubelet does.
	MountGroup bool
	// AnyParameters accepts parameters of classes that no pool takes: another
	// driver's, in whose name this one stands in.
	AnyParameters bool
	// Probe returns nil where the driver can work here, else what is missing.
	Probe func() error
}

// Driver is a CSI driver. Everything may be called concurrently; calls for one
// volume wait for one another. Make one with New.
type Driver struct {
	cfg   Config
	offer csireq.Features
	caps  Capabilities // of the first pool: they are of one kind
	locks volumeLocks

	mu        sync.Mutex
	nodes     map[string]bool // those that Node was called for
	lastPools map[string]Pool // where a volume was seen last: looked at first
}

// New returns a driver. It calls no pool but for what does not change.
func New(cfg Config) (*Driver, error) {
	if len(cfg.Pools) == 0 {
		return nil, errors.New("blockcsi: a driver needs a pool")
	}
	for _, pool := range cfg.Pools {
		if pool.Node() != "" && cfg.TopologyKey == "" {
			return nil, fmt.Errorf("blockcsi: the pool of node %q needs a TopologyKey", pool.Node())
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

// Identity returns the identity service; its Probe is Config.Usable.
func (d *Driver) Identity() csi.IdentityServer {
	return &csireq.Identity{
		Name: d.cfg.Name, Version: d.cfg.Version, Ready: d.cfg.Probe,
		Topology: d.cfg.TopologyKey != "", Groups: d.caps.groups(),
	}
}

// GroupController returns the group controller service. There is one where
// volumes can be copied.
func (d *Driver) GroupController() csi.GroupControllerServer { return &groupController{driver: d} }

// Controller returns the controller service.
func (d *Driver) Controller() csi.ControllerServer { return &controller{driver: d} }

// Node returns the node service of one node and makes the node known: volumes
// can be attached to it from now on. Call it again whenever the node's driver
// starts again.
func (d *Driver) Node(nodeID string, fs *nodefs.Real) csi.NodeServer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[nodeID] = true
	for _, pool := range d.cfg.Pools {
		pool.RegisterNode(nodeID)
	}
	return &nodeService{driver: d, id: nodeID, fs: fs}
}

// hasNode tells whether Node was called for a node.
func (d *Driver) hasNode(nodeID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[nodeID]
}

// find returns a volume or a snapshot that is whole, and its pool; NotFound if
// there is none. Where a pool cannot be read and no other has it, the pool's error.
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

// lockAndFind waits until nobody else works on a volume, and finds it. Unlock lets the
// next one in; on an error nothing is held.
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

// lookup is find for what may be unfinished.
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

// poolsFor returns all pools, the one first in which a volume was seen.
func (d *Driver) poolsFor(id string) []Pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.lastPools[id]
	if seen == nil {
		return d.cfg.Pools
	}
	pools := []Pool{seen}
	for _, pool := range d.cfg.Pools {
		if pool != seen {
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

// Recover finishes or undoes what a driver that was killed had begun, and says
// what it did, a line each. Call it before the services are used.
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

// Orphans are devices, files and volumes that carry the driver's mark and belong
// to no volume, a line each with how to get rid of it.
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
		all = append(all, each.ID+" is one of group "+each.Group+", which is not whole: start the driver again, which removes it")
	}
	return all, err
}
