package array

import (
	"maps"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	// DriverName is the driver's name when Config leaves it out.
	DriverName = "array.csi.volsim.dev"
	// DiskKey is the key in the publish context under which the node service
	// expects the name of the disk, as the controller service returned it.
	DiskKey = "disk"

	driverVersion        = "0.1.0"
	capacityBytesDefault = 1 << 40
	volumeBytesDefault   = 1 << 30
)

// Config says what an Array is; the zero value works.
type Config struct {
	// DriverName is the name that storage classes use; empty is DriverName.
	DriverName string
	// CapacityBytes is the size of the whole array; 0 is 1 TiB.
	CapacityBytes int64
	// VolumesPerNode is how many volumes can be attached to a node; 0 is any number.
	VolumesPerNode int
}

// Array is the state of a simulated disk array, the same for all nodes. It
// outlives a crash of whoever calls it. Make one with New.
type Array struct {
	name          string
	capacityBytes int64
	offer         csireq.Features

	mu      sync.Mutex // guards all below; taken before any lock of nodefs
	volumes map[string]*volume
	nodes   map[string]bool // those that Node was called for
	perNode int             // Config.VolumesPerNode, or what LimitVolumes said
}

type volume struct {
	id, name  string
	sizeBytes int64
	fsBytes   int64 // of its file system; 0: it has none
	tree      *nodefs.Tree
	attached  map[string]attachment // by node id
}

type attachment struct {
	readOnly bool
	mode     csi.VolumeCapability_AccessMode_Mode
}

// Volume is what a checker sees of one volume.
type Volume struct {
	// ID is the volume id (volume handle) and Name the name it was asked for with.
	ID, Name string
	// SizeBytes is the booked size.
	SizeBytes int64
	// FSBytes is the size of its file system; 0: it has none.
	FSBytes int64
	// AttachedTo are the ids of the nodes, sorted.
	AttachedTo []string
	// Hash is nodefs.Tree.Hash of the content.
	Hash string
}

// New returns an empty array.
func New(cfg Config) *Array {
	a := &Array{
		name:          cfg.DriverName,
		capacityBytes: cfg.CapacityBytes,
		offer:         csireq.Features{MultiNode: true, Block: true},
		volumes:       map[string]*volume{},
		nodes:         map[string]bool{},
		perNode:       cfg.VolumesPerNode,
	}
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
	return &csireq.Identity{Name: a.name, Version: driverVersion}
}

// Controller returns the controller service.
func (a *Array) Controller() csi.ControllerServer { return &controller{array: a} }

// Node returns the node service of one node, and makes the node known to the
// array: volumes can be attached to it from now on. Call it again whenever the
// node's driver starts again.
func (a *Array) Node(nodeID string, fs *nodefs.Memory) csi.NodeServer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes[nodeID] = true
	return &nodeService{array: a, id: nodeID, fs: fs}
}

// SetVolumesPerNode lets so many volumes be attached to a node from now on, 0 for any number. What is attached stays so. It may be
// called at any time; kubelets learn it when they ask the node services next.
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
			AttachedTo: v.nodes(), Hash: v.tree.Hash(),
		})
	}
	return all
}

// ids returns the sorted ids of all volumes. The caller holds a.mu.
func (a *Array) ids() []string { return slices.Sorted(maps.Keys(a.volumes)) }

// freeBytes returns what is not booked. The caller holds a.mu.
func (a *Array) freeBytes() int64 {
	free := a.capacityBytes
	for _, v := range a.volumes {
		free -= v.sizeBytes
	}
	return free
}

// checkVolumesPerNode tells whether one more volume may be attached to a node. The caller holds a.mu.
func (a *Array) checkVolumesPerNode(nodeID string) error {
	if a.perNode == 0 {
		return nil
	}
	attached := 0
	for _, v := range a.volumes {
		if _, is := v.attached[nodeID]; is {
			attached++
		}
	}
	if attached >= a.perNode {
		return status.Errorf(codes.ResourceExhausted, "node %q has %d volumes and can have %d", nodeID, attached, a.perNode)
	}
	return nil
}

// find returns a volume or NotFound. The caller holds a.mu.
func (a *Array) find(id string) (*volume, error) {
	if v := a.volumes[id]; v != nil {
		return v, nil
	}
	return nil, status.Errorf(codes.NotFound, "no volume %q on this array", id)
}

// nodes returns the ids of the nodes that v is attached to, sorted.
func (v *volume) nodes() []string { return slices.Sorted(maps.Keys(v.attached)) }
