package blockcsitest

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/csireq"
)

// operations are the operations that TestKilled kills. A volume "source" is in use meanwhile.
var operations = []operation{
	{
		name: "create", fsType: "ext4",
		run:   func(w *world) { w.create("made", "ext4", 0, "") },
		check: func(w *world) { w.useOnce(w.create("made", "ext4", 0, ""), "") },
	},
	{
		name: "snapshot", fsType: "ext4", copies: true,
		run: func(w *world) { w.volume("source", "ext4", "").snapshot("snapshot") },
		check: func(w *world) {
			source := w.volume("source", "ext4", w.first())
			snapshot := source.snapshot("snapshot")
			w.useOnce(w.create("restored", "ext4", 0, snapshot), source.hash())
			w.delete(snapshot)
		},
	},
	{
		name: "clone", fsType: "xfs", copies: true,
		run: func(w *world) { w.create("clone", "xfs", 0, csireq.VolumeID("source")) },
		check: func(w *world) {
			source := w.volume("source", "xfs", w.first())
			w.useOnce(w.create("clone", "xfs", 0, source.id), source.hash())
		},
	},
	{
		name: "group", fsType: "ext4", copies: true,
		prepare: func(w *world) { w.create("second", "ext4", 0, "") },
		run:     func(w *world) { w.group() },
		check: func(w *world) {
			if count := w.snapshots(); count != 0 && count != 2 {
				w.Errorf("got %d snapshots, want 0 or 2", count)
			}
			group := w.group()
			if count := w.snapshots(); count != 2 {
				w.Errorf("got %d snapshots, want 2", count)
			}
			source := w.volume("source", "ext4", w.first())
			w.useOnce(w.create("restored", "ext4", 0, source.memberOf(group)), source.hash())
			w.deleteGroup(group)
			w.delete(csireq.VolumeID("second"))
		},
	},
	{
		name: "group removal", fsType: "ext4", copies: true,
		prepare: func(w *world) {
			w.create("second", "ext4", 0, "")
			w.group()
		},
		run: func(w *world) { w.deleteGroup(&csi.VolumeGroupSnapshot{GroupSnapshotId: csireq.GroupID("group")}) },
		check: func(w *world) {
			if count := w.snapshots(); count != 0 && count != 2 {
				w.Errorf("got %d snapshots, want 0 or 2", count)
			}
			w.deleteGroup(&csi.VolumeGroupSnapshot{GroupSnapshotId: csireq.GroupID("group")})
			if count := w.snapshots(); count != 0 {
				w.Errorf("got %d snapshots, want 0", count)
			}
			w.delete(csireq.VolumeID("second"))
		},
	},
	{
		name: "removal", fsType: "ext4",
		prepare: func(w *world) { w.create("doomed", "ext4", 0, "") },
		run:     func(w *world) { w.delete(csireq.VolumeID("doomed")) },
		check: func(w *world) {
			w.delete(csireq.VolumeID("doomed"))
			_, err := w.Driver.Controller().ControllerGetVolume(w.Context(),
				&csi.ControllerGetVolumeRequest{VolumeId: csireq.VolumeID("doomed")})
			w.wantCode(err, codes.NotFound)
		},
	},
	{
		name: "expansion", fsType: "xfs", tools: true,
		run: func(w *world) {
			source := w.volume("source", "xfs", w.first())
			source.expand(600 * mebibyte)
			source.expandOnNode()
		},
		check: func(w *world) {
			source := w.volume("source", "xfs", w.first())
			source.expand(600 * mebibyte)
			source.expandOnNode()
			if now := source.size(); now < 500*mebibyte {
				w.Errorf("%d bytes after growing", now)
			}
		},
	},
	{
		name: "settings", fsType: "ext4",
		prepare: func(w *world) { w.create("modified", "ext4", 0, "").use(w.first()) },
		run:     func(w *world) { w.modify() },
		check: func(w *world) {
			w.modify()
			v := w.volume("modified", "ext4", w.first())
			v.stopUse()
			w.useOnce(v, "")
		},
	},
	use("ext4"),
	useCopy("ext4"), useCopy("xfs"), useCopy("btrfs"),
}

// use returns an operation that uses a new volume and stops using it.
func use(fsType string) operation {
	return operation{
		name: "use of a new " + fsType, fsType: fsType, tools: true,
		prepare: func(w *world) { w.create("new", fsType, 0, "") },
		run: func(w *world) {
			v := w.volume("new", fsType, "")
			v.use(w.first())
			v.stopUse()
		},
		check: func(w *world) { w.useOnce(w.volume("new", fsType, ""), "") },
	}
}

// useCopy returns an operation that uses a copy larger than its source.
func useCopy(fsType string) operation {
	return operation{
		name: "use of a larger copy of " + fsType, fsType: fsType, tools: true, copies: true,
		prepare: func(w *world) {
			source := w.volume("source", fsType, w.first())
			w.create("copy", fsType, 2*source.size(), source.snapshot("snapshot"))
		},
		run: func(w *world) {
			v := w.volume("copy", fsType, "")
			v.use(w.first())
			v.stopUse()
		},
		check: func(w *world) {
			source, v := w.volume("source", fsType, w.first()), w.volume("copy", fsType, "")
			v.use(w.first())
			v.wantSize(source.size())
			v.stopUse()
			w.useOnce(v, source.hash())
			w.delete(csireq.SnapshotID("snapshot"))
		},
	}
}

// modify applies the configured settings to the volume "modified".
func (w *world) modify() {
	w.Helper()
	_, err := w.Driver.Controller().ControllerModifyVolume(w.Context(), &csi.ControllerModifyVolumeRequest{
		VolumeId: csireq.VolumeID("modified"), MutableParameters: w.cfg.Settings,
	})
	w.must(err)
}

// useOnce uses a volume, checks its hash unless want is "", and removes it.
func (w *world) useOnce(v *volume, want string) {
	w.Helper()
	v.use(w.first())
	v.wantThawed()
	if want != "" {
		v.wantHash(want, "")
	}
	v.write(9)
	v.stopUse()
	w.delete(v.id)
}

// group creates a group of the volumes "source" and "second".
func (w *world) group() *csi.VolumeGroupSnapshot {
	w.Helper()
	group, err := w.tryGroup("group", w.volume("source", "", ""), w.volume("second", "", ""))
	w.must(err)
	return group
}
