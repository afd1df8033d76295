package array

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// snapshot is an immutable copy of a volume. It does not depend on the volume.
type snapshot struct {
	id, name  string
	source    string // ID of its volume
	group     string // ID of its group; "": none
	sizeBytes int64
	fsBytes   int64
	created   time.Time
	tree      *nodefs.Tree // never mounted
}

// A Snapshot is the state of one snapshot, for checkers.
type Snapshot struct {
	// ID is the snapshot ID (snapshot handle). Name is the name in the create request: that of the
	// group for a member of one.
	ID, Name string
	// SourceID is the ID of the volume, which may be deleted.
	SourceID string
	// GroupID is the ID of the group; "": none.
	GroupID string
	// SizeBytes is the size of the volume at that time.
	SizeBytes int64
	// Hash is nodefs.Tree.Hash of the content. It never changes.
	Hash string
}

// Snapshots returns all snapshots, sorted by ID. It may be called at any time.
func (a *Array) Snapshots() []Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []Snapshot
	for _, id := range a.snapshotIDs() {
		s := a.snapshots[id]
		all = append(all, Snapshot{
			ID: s.id, Name: s.name, SourceID: s.source, GroupID: s.group, SizeBytes: s.sizeBytes, Hash: s.tree.Hash(),
		})
	}
	return all
}

// snapshotIDs returns the sorted IDs of all snapshots. The caller holds a.mu.
func (a *Array) snapshotIDs() []string { return slices.Sorted(maps.Keys(a.snapshots)) }

// findSnapshot returns a snapshot, or NotFound. The caller holds a.mu.
func (a *Array) findSnapshot(id string) (*snapshot, error) {
	if s := a.snapshots[id]; s != nil {
		return s, nil
	}
	return nil, status.Errorf(codes.NotFound, "no snapshot %q on this array", id)
}

// epoch is before the first time that an array without a clock returns.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// time returns the time of a new snapshot: by the clock, or one second after the last. The caller
// holds a.mu.
func (a *Array) time() time.Time {
	if a.now != nil {
		return a.now()
	}
	a.ticks++
	return epoch.Add(time.Duration(a.ticks) * time.Second)
}

// snapshotAll stores a snapshot of each volume, all of one instant. The function blank returns a
// snapshot with ID, name and group only. There is at least one volume, and they are sorted by ID. The
// caller holds a.mu.
func (a *Array) snapshotAll(volumes []*volume, blank func(*volume) snapshot) []*snapshot {
	trees := make([]*nodefs.Tree, len(volumes))
	for i, v := range volumes {
		trees[i] = v.tree
	}
	if a.snapshots == nil {
		a.snapshots = map[string]*snapshot{}
	}
	created, made := a.time(), make([]*snapshot, len(volumes))
	for i, tree := range trees[0].Clone(trees[1:]...) {
		v, s := volumes[i], blank(volumes[i])
		s.source, s.sizeBytes, s.fsBytes, s.created, s.tree = v.id, v.sizeBytes, v.fsBytes, created, tree
		made[i] = &s
		a.snapshots[s.id] = &s
	}
	return made
}

// csiSnapshot returns s as CSI describes a snapshot.
func (s *snapshot) csiSnapshot() *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: s.id, SourceVolumeId: s.source, SizeBytes: s.sizeBytes,
		CreationTime: timestamppb.New(s.created), ReadyToUse: true, GroupSnapshotId: s.group,
	}
}

// CreateSnapshot copies a volume at one instant, in use or not. Snapshots do not count against the
// capacity. The parameters of a snapshot class are ignored.
func (c *controller) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if err := csireq.CheckCreateSnapshot(request); err != nil {
		return nil, err
	}
	a, id, source := c.array, csireq.SnapshotID(request.GetName()), request.GetSourceVolumeId()
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.snapshots[id]; old != nil {
		if old.source != source {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %q exists with source %s, requested is %s",
				old.name, old.source, source)
		}
		return &csi.CreateSnapshotResponse{Snapshot: old.csiSnapshot()}, nil
	}
	from, err := a.find(source)
	if err != nil {
		return nil, err
	}
	made := a.snapshotAll([]*volume{from}, func(*volume) snapshot { return snapshot{id: id, name: request.GetName()} })
	return &csi.CreateSnapshotResponse{Snapshot: made[0].csiSnapshot()}, nil
}

func (c *controller) DeleteSnapshot(
	_ context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	if err := csireq.RequireSnapshotID(request); err != nil {
		return nil, err
	}
	a, id := c.array, request.GetSnapshotId()
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.snapshots[id]; s != nil && s.group != "" {
		return nil, status.Errorf(codes.InvalidArgument, "snapshot %s belongs to group %s: delete the group", id, s.group)
	}
	delete(a.snapshots, id)
	return &csi.DeleteSnapshotResponse{}, nil
}

// GetSnapshot returns one snapshot.
func (c *controller) GetSnapshot(
	_ context.Context, request *csi.GetSnapshotRequest,
) (*csi.GetSnapshotResponse, error) {
	if err := csireq.RequireSnapshotID(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	s, err := a.findSnapshot(request.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: s.csiSnapshot()}, nil
}

// ListSnapshots returns all snapshots, or those with an ID or of a volume. It is not an error if
// there are none.
func (c *controller) ListSnapshots(
	_ context.Context, request *csi.ListSnapshotsRequest,
) (*csi.ListSnapshotsResponse, error) {
	if err := csireq.CheckText(request); err != nil {
		return nil, err
	}
	a := c.array
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := slices.DeleteFunc(a.snapshotIDs(), func(id string) bool {
		onlyID, source := request.GetSnapshotId(), request.GetSourceVolumeId()
		return onlyID != "" && onlyID != id || source != "" && source != a.snapshots[id].source
	})
	ids, next, err := csireq.Page(wanted, request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{NextToken: next}
	for _, id := range ids {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: a.snapshots[id].csiSnapshot()})
	}
	return response, nil
}
