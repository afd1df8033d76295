package array

import (
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	// DriverName is the default name of the driver.
	DriverName = "array.csi.volsim.dev"
	// diskKey is the key of the disk's name in the publish context, which the controller service
	// returns and the node service requires.
	diskKey = "disk"

	driverVersion        = "0.1.0"
	capacityBytesDefault = 1 << 40
	volumeBytesDefault   = 1 << 30
)

// Config configures an Array; the zero value works.
type Config struct {
	// DriverName is the name that storage classes use; "" is DriverName.
	DriverName string
	// CapacityBytes is the size of the whole array; 0 is 1 TiB.
	CapacityBytes int64
	// VolumesPerNode is how many volumes can be attached to a node; 0 is unlimited.
	VolumesPerNode int
	// Now returns the creation time of a snapshot. With nil, snapshots are created at one second
	// intervals from the year 2000 on.
	Now func() time.Time
}

// An Array is the state of a simulated disk array, shared by all nodes. It outlives a crash of its
// callers. Create one with New.
type Array struct {
	name          string
	capacityBytes int64
	offer         csireq.Features
	now           func() time.Time // may be nil
	controller    controller
	groups        groupController

	mu         sync.Mutex // guards the fields below; locked before any lock of nodefs
	volumes    map[string]*volume
	snapshots  map[string]*snapshot
	conditions []csireq.Condition
	ticks      int             // number of times that time returned without a clock
	nodes      map[string]bool // for which Node was called
	perNode    int             // from Config or SetVolumesPerNode; 0: unlimited
}

type volume struct {
	id, name  string
	sizeBytes int64
	fsBytes   int64 // size of its file system; 0: none
	// growsOnStage is set for a copy that is larger than the file system in it.
	growsOnStage bool
	source       string // ID of the snapshot or volume that it is a copy of; "": none
	tree         *nodefs.Tree
	attached     map[string]attachment // by node id
	conditions   []csireq.Condition
	settings     map[string]string // see settingsMax; replaced, never changed
}

type attachment struct {
	readOnly bool
	mode     csi.VolumeCapability_AccessMode_Mode
}

// A Volume is the state of one volume, for checkers.
type Volume struct {
	// ID is the volume ID (volume handle), and Name the name in the create request.
	ID, Name string
	// SizeBytes is the provisioned size.
	SizeBytes int64
	// FSBytes is the size of its file system; 0: none.
	FSBytes int64
	// SourceID is the ID of the snapshot or volume that it was created from; "": none.
	SourceID string
	// Settings are the mutable parameters that it has, by key: those with which it was created, changed
	// by each ControllerModifyVolume. They must not be modified.
	Settings map[string]string
	// AttachedTo are the IDs of the nodes, sorted.
	AttachedTo []string
	// Hash is nodefs.Tree.Hash of the content.
	Hash string
}

// New returns an empty array.
func New(cfg Config) *Array {
	a := &Array{
		name:          cfg.DriverName,
		capacityBytes: cfg.CapacityBytes,
		offer:         csireq.Features{MultiNode: true, Block: true, ContentSources: true, Modify: true},
		now:           cfg.Now,
		volumes:       map[string]*volume{},
		nodes:         map[string]bool{},
		perNode:       cfg.VolumesPerNode,
	}
	a.controller.array, a.groups.array = a, a
	if a.name == "" {
		a.name = DriverName
	}
	if a.capacityBytes == 0 {
		a.capacityBytes = capacityBytesDefault
	}
	return a
}

// Identity returns the identity service.
func (a *Array) Identity() csi.IdentityServer {
	return &csireq.Identity{Name: a.name, Version: driverVersion, Groups: true}
}

// Controller returns the controller service.
func (a *Array) Controller() csi.ControllerServer { return &a.controller }

// GroupController returns the group controller service.
func (a *Array) GroupController() csi.GroupControllerServer { return &a.groups }

// Node returns the node service of one node, and makes the node known to the array, so that volumes
// can be attached to it. Call it again whenever the node's driver restarts.
func (a *Array) Node(nodeID string, fs *nodefs.Memory) csi.NodeServer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes[nodeID] = true
	return &nodeService{array: a, id: nodeID, fs: fs}
}

// SetVolumesPerNode changes how many volumes can be attached to a node; 0 is unlimited. Attached
// volumes stay attached. It may be called at any time; kubelets learn the limit from their next
// NodeGetInfo.
func (a *Array) SetVolumesPerNode(perNode int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.perNode = perNode
}

// Volumes returns all volumes, sorted by ID. It may be called at any time.
func (a *Array) Volumes() []Volume {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]Volume, 0, len(a.volumes))
	for _, id := range a.ids() {
		v := a.volumes[id]
		all = append(all, Volume{
			ID: v.id, Name: v.name, SizeBytes: v.sizeBytes, FSBytes: v.fsBytes,
			SourceID: v.source, AttachedTo: v.nodes(), Hash: v.tree.Hash(), Settings: v.settings,
		})
	}
	return all
}

// ids returns the sorted IDs of all volumes. The caller holds a.mu.
func (a *Array) ids() []string { return sortedKeys(a.volumes) }

// freeBytes returns the capacity that is not provisioned. The caller holds a.mu.
func (a *Array) freeBytes() int64 {
	free := a.capacityBytes
	for _, v := range a.volumes {
		free -= v.sizeBytes
	}
	return free
}

// checkVolumesPerNode returns ResourceExhausted if no further volume may be attached to the node.
// The caller holds a.mu.
func (a *Array) checkVolumesPerNode(nodeID string) error {
	if a.perNode == 0 {
		return nil
	}
	attached := 0
	for _, v := range a.volumes {
		if _, ok := v.attached[nodeID]; ok {
			attached++
		}
	}
	if attached >= a.perNode {
		return status.Errorf(codes.ResourceExhausted,
			"node %q has %d volumes, the limit is %d", nodeID, attached, a.perNode)
	}
	return nil
}

// find returns a volume, or NotFound. The caller holds a.mu.
func (a *Array) find(id string) (*volume, error) {
	if v := a.volumes[id]; v != nil {
		return v, nil
	}
	return nil, status.Errorf(codes.NotFound, "no volume %q on this array", id)
}

// nodes returns the IDs of the nodes to which v is attached, sorted.
func (v *volume) nodes() []string { return sortedKeys(v.attached) }

// sortedKeys is slices.Sorted(maps.Keys(m)) with one allocation, none for an empty map.
func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
