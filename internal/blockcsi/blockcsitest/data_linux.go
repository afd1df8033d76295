package blockcsitest

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// TestData tests, for each available file system and for block volumes, that a volume keeps its
// data. It compares hashes. The file systems are tested in parallel, because most of the time is
// spent waiting for the kernel.
func TestData(t *testing.T, cfg Config) {
	kinds := cfg.FSTypes
	if len(kinds) == 0 {
		kinds = []string{"ext4", "xfs", "btrfs", block}
	}
	for _, fsType := range kinds {
		t.Run(fsType, func(t *testing.T) {
			t.Parallel()
			offered := ""
			for _, each := range dataCases {
				if len(cfg.Cases) > 0 && !slices.Contains(cfg.Cases, each.name) {
					continue
				}
				t.Run(each.name, func(t *testing.T) {
					w := newWorld(t, cfg)
					if offered == "" {
						offered = w.offered(fsType)
					}
					switch {
					case offered != yes:
						t.Skipf("%s is not supported here: %s", fsType, offered)
					case each.copies && !w.copies(), each.groups && !w.groups():
						t.Skip("the driver does not support this kind of copy")
					}
					each.run(w, fsType)
				})
			}
		})
	}
}

const yes = "yes"

// offered returns yes if a volume with a file system can be created, or else the reason.
func (w *world) offered(fsType string) string {
	w.Helper()
	v, err := w.try("is it offered", fsType, 0, "")
	if err != nil {
		return err.Error()
	}
	w.delete(v.id)
	return yes
}

// copies reports whether the driver copies volumes.
func (w *world) copies() bool {
	response, err := w.Driver.Controller().ControllerGetCapabilities(w.Context(),
		&csi.ControllerGetCapabilitiesRequest{})
	w.must(err)
	return slices.ContainsFunc(response.GetCapabilities(), func(c *csi.ControllerServiceCapability) bool {
		return c.GetRpc().GetType() == csi.ControllerServiceCapability_RPC_CLONE_VOLUME
	})
}

// groups reports whether the driver supports group snapshots.
func (w *world) groups() bool {
	response, err := w.Driver.GroupController().GroupControllerGetCapabilities(w.Context(),
		&csi.GroupControllerGetCapabilitiesRequest{})
	w.must(err)
	return len(response.GetCapabilities()) > 0
}

var dataCases = []struct {
	name   string
	copies bool // needs snapshots and clones
	groups bool // needs group snapshots
	run    func(w *world, fsType string)
}{
	{"move", false, false, dataMove},
	{"grow unused", false, false, dataGrowUnused},
	{"grow in use", false, false, dataGrowInUse},
	{"restore", true, false, dataRestore},
	{"restore larger, read-only", true, false, dataRestoreLarger},
	{"clone of a clone", true, false, dataClone},
	{"group snapshot", true, true, dataGroup},
}

func (w *world) first() string { return w.cfg.Nodes[0] }
func (w *world) last() string  { return w.cfg.Nodes[len(w.cfg.Nodes)-1] }

func dataMove(w *world, fsType string) {
	v := w.create("moving", fsType, 0, "")
	v.use(w.first())
	v.write(1)
	want := v.hash()
	v.stopUse()
	w.start(nil)
	v.use(w.last())
	v.wantHash(want, "")
	v.stopUse()
	w.delete(v.id)
}

// sizeAfterGrowth returns the size that a volume grows to.
func (v *volume) sizeAfterGrowth() int64 { return 2 * v.bytes }

// wantSize checks that the volume has grown, except for the file system's overhead.
func (v *volume) wantSize(before int64) {
	v.Helper()
	if now := v.size(); now < before*17/10 {
		v.Errorf("got %d bytes, want about twice the former size %d", now, before)
	}
}

func dataGrowUnused(w *world, fsType string) {
	v := w.create("growing", fsType, 0, "")
	v.use(w.first())
	v.write(1)
	want, before := v.hash(), v.size()
	v.stopUse()
	v.expand(v.sizeAfterGrowth())
	v.use(w.last())
	v.expandOnNode()
	v.wantSize(before)
	v.wantHash(want, "")
}

func dataGrowInUse(w *world, fsType string) {
	v := w.create("growing", fsType, 0, "")
	v.use(w.first())
	v.write(1)
	want, before := v.hash(), v.size()
	v.expand(v.sizeAfterGrowth())
	v.expandOnNode()
	v.wantSize(before)
	v.wantHash(want, "")
	v.write(2)
	again := v.hash()
	v.stopUse()
	v.use(w.last())
	v.wantHash(again, want)
}

// snapshotInUse creates a snapshot of a volume in use, if the driver supports that.
func (v *volume) snapshotInUse(name string) string {
	v.Helper()
	if v.fsType != block || v.cfg.CopiesInUse {
		return v.snapshot(name)
	}
	_, err := v.trySnapshot(name)
	v.wantCode(err, codes.FailedPrecondition)
	node := v.node
	v.stopUse()
	id := v.snapshot(name)
	v.use(node)
	return id
}

func dataRestore(w *world, fsType string) {
	v := w.create("source", fsType, 0, "")
	v.use(w.first())
	v.write(1)
	old := v.hash()
	snapshot := v.snapshotInUse("snapshot")
	v.write(2)
	late := v.hash()
	a, b := w.create("a", fsType, 0, snapshot), w.create("b", fsType, 0, snapshot)
	a.use(w.first())
	b.use(w.first()) // all three at once: each must be distinct
	a.wantHash(old, late)
	b.wantHash(old, late)
	v.wantHash(late, old)
	a.write(3)
	b.wantHash(old, late)
	v.stopUse()
	if w.cfg.DependentSnapshots {
		_, err := w.Driver.Controller().DeleteVolume(w.Context(), &csi.DeleteVolumeRequest{VolumeId: v.id})
		w.wantCode(err, codes.FailedPrecondition)
	} else {
		w.delete(v.id)
	}
	c := w.create("c", fsType, 0, snapshot)
	c.use(w.last())
	c.wantHash(old, late)
	for _, each := range []*volume{a, b, c} {
		each.stopUse()
		w.delete(each.id)
	}
	w.delete(snapshot)
}

func dataRestoreLarger(w *world, fsType string) {
	v := w.create("source", fsType, 0, "")
	v.use(w.first())
	v.write(1)
	want, before := v.hash(), v.size()
	snapshot := v.snapshotInUse("snapshot")
	read := w.create("read", fsType, 0, snapshot)
	w.must(read.tryUse(w.first(), true))
	read.wantHash(want, "")
	larger := w.create("larger", fsType, v.sizeAfterGrowth(), snapshot)
	w.must(larger.tryUse(w.first(), true))
	larger.wantHash(want, "")
	larger.stopUse()
	larger.use(w.first())
	larger.wantSize(before)
	larger.wantHash(want, "")
	larger.stopUse()
	larger.use(w.last()) // and must stay distinct the next time
	larger.wantHash(want, "")
}

func dataClone(w *world, fsType string) {
	v := w.create("source", fsType, 0, "")
	v.use(w.first())
	v.write(1)
	old := v.hash()
	v.stopUse()
	clone := w.create("clone", fsType, 0, v.id)
	v.use(w.first())
	clone.use(w.first())
	clone.wantHash(old, "")
	clone.write(2)
	late := clone.hash()
	v.wantHash(old, late)
	clone.stopUse()
	second := w.create("clone of the clone", fsType, 0, clone.id)
	clone.use(w.first())
	second.use(w.first())
	for range 2 {
		second.wantHash(late, old)
		second.stopUse()
		second.use(w.last())
	}
	v.wantHash(old, late)
}
