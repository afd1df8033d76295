package array_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/testcheck"
)

func (w *world) group(name string, sources []string, code codes.Code) *csi.VolumeGroupSnapshot {
	w.t.Helper()
	response, err := w.array.GroupController().CreateVolumeGroupSnapshot(w.t.Context(),
		&csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: sources})
	w.want(err, code)
	return response.GetGroupSnapshot()
}

func (w *world) deleteGroup(id string, members []string, code codes.Code) {
	w.t.Helper()
	_, err := w.array.GroupController().DeleteVolumeGroupSnapshot(w.t.Context(),
		&csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members})
	w.want(err, code)
}

func (w *world) getGroup(id string, members []string, code codes.Code) *csi.VolumeGroupSnapshot {
	w.t.Helper()
	response, err := w.array.GroupController().GetVolumeGroupSnapshot(w.t.Context(),
		&csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members})
	w.want(err, code)
	return response.GetGroupSnapshot()
}

// TestGroupSnapshot creates a group of two volumes, restores one member and deletes the group.
func TestGroupSnapshot(t *testing.T) {
	w := newWorld(t)
	first, second := w.id, w.create("second", 2*gibibyte, 0, codes.OK)
	w.attach("one", singleNode, false, codes.OK)
	w.stage("one", codes.OK)
	w.write("one", "old")
	made := w.group("g", []string{second, first}, codes.OK)
	w.write("one", "new")
	single := w.snapshot("single", first, codes.OK).GetSnapshotId()
	for what, again := range map[string]*csi.VolumeGroupSnapshot{
		"created again": w.group("g", []string{first, second}, codes.OK),
		"got":           w.getGroup(made.GetGroupSnapshotId(), nil, codes.OK),
	} {
		if !proto.Equal(again, made) {
			t.Errorf("%s: %v, want %v", what, again, made)
		}
	}
	byVolume := map[string]string{}
	var members []string
	for _, s := range made.GetSnapshots() {
		if !s.GetReadyToUse() || s.GetGroupSnapshotId() != made.GetGroupSnapshotId() ||
			!proto.Equal(s.GetCreationTime(), made.GetCreationTime()) {
			t.Errorf("member %v of %v", s, made)
		}
		byVolume[s.GetSourceVolumeId()] = s.GetSnapshotId()
		members = append(members, s.GetSnapshotId())
	}
	want := map[string]string{first: csireq.MemberID("g", first), second: csireq.MemberID("g", second)}
	if diff := cmp.Diff(want, byVolume); diff != "" {
		t.Error(diff)
	}
	restored := w.copy("restored", fromSnapshot(byVolume[first]), 0, 0, codes.OK)
	w.deleteSnapshot(members[0], codes.InvalidArgument)
	w.getGroup(made.GetGroupSnapshotId(), members, codes.OK)
	w.getGroup(made.GetGroupSnapshotId(), []string{single}, codes.InvalidArgument)
	w.deleteGroup(made.GetGroupSnapshotId(), []string{single}, codes.InvalidArgument)
	if all := w.array.Snapshots(); len(all) != 3 {
		t.Errorf("snapshots: %v", all)
	}
	for range 2 {
		w.deleteGroup(made.GetGroupSnapshotId(), members, codes.OK)
	}
	if all := w.array.Snapshots(); len(all) != 1 || all[0].ID != single {
		t.Errorf("snapshots: %v, want only %s", all, single)
	}
	if got := w.read(restored); got != "old" {
		t.Errorf("restored: %q", got)
	}
}

func TestGroupSnapshotErrors(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name    string
		sources []string
		want    codes.Code
	}{
		{"", []string{w.id}, codes.InvalidArgument},
		{"g", nil, codes.InvalidArgument},
		{"g", []string{w.id, w.id}, codes.InvalidArgument},
		{"g", []string{w.id, "vol-unknown"}, codes.NotFound},
	} {
		w.group(c.name, c.sources, c.want)
		if all := w.array.Snapshots(); len(all) != 0 {
			t.Errorf("%+v: left %v", c, all)
		}
	}
	w.group("g", []string{w.id}, codes.OK)
	w.group("g", []string{w.create("other", 0, 0, codes.OK)}, codes.AlreadyExists)
	w.getGroup("", nil, codes.InvalidArgument)
	w.getGroup("group-unknown", nil, codes.NotFound)
	w.deleteGroup("", nil, codes.InvalidArgument)
	w.deleteGroup("group-unknown", []string{"any"}, codes.OK)
}

// TestGroupIsCrashConsistent creates groups while a writer writes each number to the first volume and then to the
// second: no snapshot of the second is ahead of the first's.
func TestGroupIsCrashConsistent(t *testing.T) {
	const numbers = 100
	w := newWorld(t)
	ids := []string{w.id, w.create("second", 0, 0, codes.OK)}
	slices.Sort(ids) // as the array copies them
	fs := w.fs["one"]
	write := func(at int, number byte) {
		if err := fs.WriteFile(fmt.Sprintf("/kubelet/stage%d/number", at), []byte{number}); err != nil {
			t.Error(err)
		}
	}
	for at, id := range ids {
		w.id = id
		w.attach("one", singleNode, false, codes.OK)
		w.stageAt("one", fmt.Sprintf("/kubelet/stage%d", at), codes.OK)
		for i := range 200 { // a copy takes a while
			testcheck.NoError(t, fs.WriteFile(fmt.Sprintf("/kubelet/stage%d/file%d", at, i), nil))
		}
	}
	byHash := map[string]int{}
	for number := range byte(numbers) {
		write(0, number)
		byHash[w.volume(ids[0]).Hash] = int(number)
	}
	write(0, 0)
	write(1, 0)
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for number := byte(1); ; number = (number + 1) % numbers {
			select {
			case <-done:
				return
			default:
				write(0, number)
				write(1, number)
			}
		}
	})
	for range 100 {
		id := w.group("g", ids, codes.OK).GetGroupSnapshotId()
		is := map[string]int{}
		for _, s := range w.array.Snapshots() {
			is[s.SourceID] = byHash[s.Hash]
		}
		if first, second := is[ids[0]], is[ids[1]]; first != second && first != (second+1)%numbers {
			t.Errorf("the first has %d, the second %d", first, second)
		}
		w.deleteGroup(id, nil, codes.OK)
	}
	close(done)
	writer.Wait()
}

// TestSnapshotsOfNoGroup: the empty ID names no group, not all snapshots outside of groups.
func TestSnapshotsOfNoGroup(t *testing.T) {
	w := newWorld(t)
	w.snapshot("s", w.id, codes.OK)
	w.deleteGroup("", nil, codes.InvalidArgument)
	if all := w.array.Snapshots(); len(all) != 1 {
		t.Errorf("snapshots: %v", all)
	}
}
