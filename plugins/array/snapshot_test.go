package array_test

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

func (w *world) snapshot(name, source string, code codes.Code) *csi.Snapshot {
	w.t.Helper()
	response, err := w.controller.CreateSnapshot(w.t.Context(),
		&csi.CreateSnapshotRequest{Name: name, SourceVolumeId: source})
	w.want(err, code)
	return response.GetSnapshot()
}

func (w *world) deleteSnapshot(id string, code codes.Code) {
	w.t.Helper()
	_, err := w.controller.DeleteSnapshot(w.t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
	w.want(err, code)
}

func (w *world) listSnapshots(request *csi.ListSnapshotsRequest, code codes.Code) (ids []string, next string) {
	w.t.Helper()
	response, err := w.controller.ListSnapshots(w.t.Context(), request)
	w.want(err, code)
	for _, entry := range response.GetEntries() {
		ids = append(ids, entry.GetSnapshot().GetSnapshotId())
	}
	return ids, response.GetNextToken()
}

func fromSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
	}}
}

func fromVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
}

// copy creates a volume from a source.
func (w *world) copy(name string, source *csi.VolumeContentSource, required, limit int64, code codes.Code) string {
	w.t.Helper()
	response, err := w.controller.CreateVolume(w.t.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability(singleNode)}, VolumeContentSource: source,
		CapacityRange: &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit},
	})
	w.want(err, code)
	if got := response.GetVolume().GetContentSource(); err == nil && !proto.Equal(got, source) {
		w.t.Errorf("volume %s has the source %v, want %v", name, got, source)
	}
	return response.GetVolume().GetVolumeId()
}

// write writes a file of the world's volume, which is mounted on a node.
func (w *world) write(node, data string) {
	w.t.Helper()
	if err := w.fs[node].WriteFile("/kubelet/stage/file", []byte(data)); err != nil {
		w.t.Fatal(err)
	}
}

// volume returns the state of a volume.
func (w *world) volume(id string) array.Volume {
	w.t.Helper()
	for _, v := range w.array.Volumes() {
		if v.ID == id {
			return v
		}
	}
	w.t.Fatalf("no volume %s", id)
	return array.Volume{}
}

// read mounts a volume on node two and returns its file.
func (w *world) read(id string) string {
	w.t.Helper()
	w.id = id
	w.attach("two", singleNode, false, codes.OK)
	w.stage("two", codes.OK)
	data, err := w.fs["two"].ReadFile("/kubelet/stage/file")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.fs["two"].Unmount("/kubelet/stage"); err != nil {
		w.t.Fatal(err)
	}
	w.detach("two")
	return string(data)
}

// TestSnapshotKeepsItsContent restores a snapshot of a volume in use after the volume has changed, and after it is
// deleted.
func TestSnapshotKeepsItsContent(t *testing.T) {
	w := newWorld(t)
	source := w.id
	w.attach("one", singleNode, false, codes.OK)
	w.stage("one", codes.OK)
	w.write("one", "old")
	before := w.volume(source).Hash
	made := w.snapshot("s", source, codes.OK)
	w.write("one", "new")
	if again := w.snapshot("s", source, codes.OK); !proto.Equal(again, made) {
		t.Errorf("created again: %v, want %v", again, made)
	}
	want := []array.Snapshot{{
		ID: made.GetSnapshotId(), Name: "s", SourceID: source, SizeBytes: gibibyte, Hash: before,
	}}
	if diff := cmp.Diff(want, w.array.Snapshots()); diff != "" {
		t.Error(diff)
	}
	restored := w.copy("restored", fromSnapshot(made.GetSnapshotId()), gibibyte, 0, codes.OK)
	clone := w.copy("clone", fromVolume(source), 0, 0, codes.OK)
	if err := w.fs["one"].Unmount("/kubelet/stage"); err != nil {
		t.Fatal(err)
	}
	w.detach("one")
	w.delete(source, codes.OK)
	larger := w.copy("larger", fromSnapshot(made.GetSnapshotId()), 2*gibibyte, 0, codes.OK)
	w.deleteSnapshot(made.GetSnapshotId(), codes.OK)
	for id, want := range map[string]string{restored: "old", larger: "old", clone: "new"} {
		if got := w.read(id); got != want {
			t.Errorf("volume %s has %q, want %q", id, got, want)
		}
	}
	if v := w.volume(restored); v.Hash != before || v.SourceID != made.GetSnapshotId() {
		t.Errorf("restored: %+v, want the content and the ID of the snapshot %+v", v, made)
	}
	if left := w.array.Snapshots(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestRestoredFileSystemGrows restores a formatted volume with a larger size: its file system grows when it is staged.
func TestRestoredFileSystemGrows(t *testing.T) {
	w := newWorld(t)
	w.attach("one", singleNode, false, codes.OK)
	w.stage("one", codes.OK)
	snapshot := w.snapshot("s", w.id, codes.OK)
	w.id = w.copy("restored", fromSnapshot(snapshot.GetSnapshotId()), 2*gibibyte, 0, codes.OK)
	if v := w.volume(w.id); v.SizeBytes != 2*gibibyte || v.FSBytes != gibibyte {
		t.Errorf("restored: %+v", v)
	}
	w.attach("two", singleNode, false, codes.OK)
	w.stage("two", codes.OK)
	if v := w.volume(w.id); v.FSBytes != 2*gibibyte {
		t.Errorf("staged: %+v", v)
	}
}

func TestSnapshotErrors(t *testing.T) {
	w := newWorld(t)
	other := w.create("other", 2*gibibyte, 0, codes.OK)
	w.snapshot("", w.id, codes.InvalidArgument)
	w.snapshot("s", "", codes.InvalidArgument)
	w.snapshot("s", "vol-unknown", codes.NotFound)
	id := w.snapshot("s", w.id, codes.OK).GetSnapshotId()
	w.snapshot("s", other, codes.AlreadyExists)
	w.snapshot("of a snapshot", id, codes.NotFound)
	w.deleteSnapshot("", codes.InvalidArgument)
	w.deleteSnapshot("unknown", codes.OK)
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "snap-unknown": codes.NotFound, id: codes.OK} {
		_, err := w.controller.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
		w.want(err, code)
	}
	for _, c := range []struct {
		name            string
		source          *csi.VolumeContentSource
		required, limit int64
		want            codes.Code
	}{
		{"a", fromSnapshot("snap-unknown"), 0, 0, codes.NotFound},
		{"a", fromSnapshot(w.id), 0, 0, codes.NotFound},
		{"a", fromVolume("vol-unknown"), 0, 0, codes.NotFound},
		{"a", fromVolume(id), 0, 0, codes.NotFound},
		{"a", &csi.VolumeContentSource{}, 0, 0, codes.InvalidArgument},
		{"a", fromVolume(other), 0, gibibyte, codes.OutOfRange},
		{"a", fromVolume(other), 11 * gibibyte, 0, codes.OutOfRange},
		{"a", fromVolume(other), 8 * gibibyte, 0, codes.ResourceExhausted},
		{"a", fromSnapshot(id), 0, 0, codes.OK},
		{"a", fromSnapshot(id), 0, 0, codes.OK},
		{"a", fromVolume(w.id), 0, 0, codes.AlreadyExists},
		{"a", fromVolume(other), gibibyte, 0, codes.AlreadyExists},
		{"v", fromSnapshot(id), 0, 0, codes.AlreadyExists},
		{"smaller", fromVolume(other), gibibyte, 0, codes.OK}, // rounded up to the source
	} {
		w.copy(c.name, c.source, c.required, c.limit, c.want)
	}
	w.create("a", 0, 0, codes.AlreadyExists)
}

func TestListSnapshots(t *testing.T) {
	w := newWorld(t)
	other := w.create("other", 0, 0, codes.OK)
	for name, source := range map[string]string{"a": w.id, "b": w.id, "c": other} {
		w.snapshot(name, source, codes.OK)
	}
	all, _ := w.listSnapshots(&csi.ListSnapshotsRequest{}, codes.OK)
	if len(all) != 3 {
		t.Fatalf("listed %v", all)
	}
	first, next := w.listSnapshots(&csi.ListSnapshotsRequest{MaxEntries: 2}, codes.OK)
	rest, end := w.listSnapshots(&csi.ListSnapshotsRequest{StartingToken: next}, codes.OK)
	if diff := cmp.Diff(all, append(first, rest...)); diff != "" || end != "" {
		t.Errorf("pages: %s, then %q", diff, end)
	}
	for _, c := range []struct {
		id, source string
		want       int
	}{{all[0], "", 1}, {"unknown", "", 0}, {"", w.id, 2}, {"", "vol-unknown", 0}, {all[0], "vol-unknown", 0}} {
		got, _ := w.listSnapshots(&csi.ListSnapshotsRequest{SnapshotId: c.id, SourceVolumeId: c.source}, codes.OK)
		if len(got) != c.want {
			t.Errorf("%+v: listed %v", c, got)
		}
	}
	w.listSnapshots(&csi.ListSnapshotsRequest{StartingToken: "page 2"}, codes.Aborted)
	w.listSnapshots(&csi.ListSnapshotsRequest{MaxEntries: -1}, codes.InvalidArgument)
}

// TestSnapshotTime creates snapshots with a clock, and without one.
func TestSnapshotTime(t *testing.T) {
	noon := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		now  func() time.Time
		want []time.Time
	}{
		"clock": {func() time.Time { return noon }, []time.Time{noon, noon}},
		"none": {nil, []time.Time{
			time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(2000, 1, 1, 0, 0, 2, 0, time.UTC),
		}},
	} {
		w := &world{t: t, array: array.New(array.Config{Now: c.now}), fs: map[string]*nodefs.Memory{}}
		w.controller = w.array.Controller()
		source := w.create("v", 0, 0, codes.OK)
		for i, want := range c.want {
			made := w.snapshot(string(rune('a'+i)), source, codes.OK)
			if got := made.GetCreationTime().AsTime(); !got.Equal(want) || !made.GetReadyToUse() {
				t.Errorf("%s: created at %v, ready %v; want %v", name, got, made.GetReadyToUse(), want)
			}
		}
	}
}
