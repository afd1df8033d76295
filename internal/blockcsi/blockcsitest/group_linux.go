package blockcsitest

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func (w *world) tryGroup(name string, sources ...*volume) (*csi.VolumeGroupSnapshot, error) {
	request := &csi.CreateVolumeGroupSnapshotRequest{Name: name}
	for _, each := range sources {
		request.SourceVolumeIds = append(request.SourceVolumeIds, each.id)
	}
	response, err := w.Driver.GroupController().CreateVolumeGroupSnapshot(w.Context(), request)
	return response.GetGroupSnapshot(), err
}

func (w *world) deleteGroup(group *csi.VolumeGroupSnapshot) {
	w.Helper()
	request := &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()}
	for _, each := range group.GetSnapshots() {
		request.SnapshotIds = append(request.SnapshotIds, each.GetSnapshotId())
	}
	_, err := w.Driver.GroupController().DeleteVolumeGroupSnapshot(w.Context(), request)
	w.must(err)
}

// memberOf returns the snapshot of a volume in a group.
func (v *volume) memberOf(group *csi.VolumeGroupSnapshot) string {
	for _, each := range group.GetSnapshots() {
		if each.GetSourceVolumeId() == v.id {
			return each.GetSnapshotId()
		}
	}
	v.Fatalf("group %v has no snapshot of %s", group, v.id)
	return ""
}

// counter returns the path of the number that count writes.
func (v *volume) counter() string {
	if v.fsType == block {
		return v.path()
	}
	return filepath.Join(v.path(), "counter")
}

// count writes increasing numbers to one volume and then to another, until it is stopped.
func count(a, b *volume, stop *atomic.Bool, began chan<- struct{}) error {
	var files [2]*os.File
	for i, v := range []*volume{a, b} {
		file, err := os.OpenFile(v.counter(), os.O_CREATE|os.O_RDWR|os.O_SYNC, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		files[i] = file
	}
	var number [8]byte
	for n := uint64(1); !stop.Load(); n++ {
		binary.LittleEndian.PutUint64(number[:], n)
		for _, file := range files {
			if _, err := file.WriteAt(number[:], 0); err != nil {
				return err
			}
		}
		if n == 3 {
			close(began)
		}
	}
	return nil
}

func (v *volume) counted() uint64 {
	v.Helper()
	var number [8]byte
	withoutFork(func() {
		file, err := os.Open(v.counter())
		v.must(err)
		defer file.Close()
		_, err = file.ReadAt(number[:], 0)
		v.must(err)
	})
	return binary.LittleEndian.Uint64(number[:])
}

// dataGroup copies two volumes while a writer writes to both in turn. The second copy must hold the
// number of the first, or the one before.
func dataGroup(w *world, fsType string) {
	a, b := w.create("a", fsType, 0, ""), w.create("b", fsType, 0, "")
	a.use(w.first())
	b.use(w.first())
	if fsType != block { // so that copying takes some time
		for i, v := range []*volume{a, b} {
			content := make([]byte, 32*mebibyte)
			noiseStream(uint64(i)).XORKeyStream(content, content)
			w.must(WriteFile(filepath.Join(v.path(), "large"), content))
		}
	}
	var stop atomic.Bool
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- count(a, b, &stop, began) }()
	select {
	case <-began:
	case err := <-ended:
		w.Fatalf("writer failed: %v", err)
	}
	group, err := w.tryGroup("group", a, b)
	stop.Store(true)
	w.must(errors.Join(<-ended))
	if fsType == block { // two devices in use cannot be frozen at one instant
		w.wantCode(err, codes.FailedPrecondition)
		a.stopUse()
		b.stopUse()
		group, err = w.tryGroup("group", a, b)
	}
	w.must(err)
	again, err := w.tryGroup("group", b, a)
	w.must(err)
	if again.GetGroupSnapshotId() != group.GetGroupSnapshotId() || len(again.GetSnapshots()) != 2 {
		w.Errorf("created again: %v, first %v", again, group)
	}
	_, err = w.tryGroup("group", a)
	w.wantCode(err, codes.AlreadyExists)
	copyOfA, copyOfB := w.create("copy of a", fsType, 0, a.memberOf(group)), w.create("copy of b", fsType, 0,
		b.memberOf(group))
	copyOfA.use(w.first())
	copyOfB.use(w.first())
	if inA, inB := copyOfA.counted(), copyOfB.counted(); inA < 3 || inA-inB > 1 {
		w.Errorf("the copies hold %d and %d, which are not of one instant", inA, inB)
	}
	_, err = w.Driver.Controller().DeleteSnapshot(w.Context(),
		&csi.DeleteSnapshotRequest{SnapshotId: a.memberOf(group)})
	w.wantCode(err, codes.InvalidArgument)
	w.deleteGroup(group)
	w.deleteGroup(group)
	_, err = w.Driver.GroupController().GetVolumeGroupSnapshot(w.Context(),
		&csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId()})
	w.wantCode(err, codes.NotFound)
}
