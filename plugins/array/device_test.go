package array_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/plugins/nodefs"
)

func device(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func (w *world) stageDevice(staging string, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes["one"].NodeStageVolume(w.t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: w.id, StagingTargetPath: staging, VolumeCapability: device(singleNode),
		PublishContext: map[string]string{"disk": w.id},
	})
	w.want(err, code)
}

func (w *world) publishDevice(staging, target string, readOnly bool, code codes.Code) {
	w.t.Helper()
	_, err := w.nodes["one"].NodePublishVolume(w.t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: w.id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: device(singleNode),
		Readonly: readOnly,
	})
	w.want(err, code)
}

// wantDevice checks the device of the node at a path; "" for none.
func (w *world) wantDevice(path, want string) {
	w.t.Helper()
	info, err := w.fs["one"].Stat(path)
	if want == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || info.Device != want {
		w.t.Errorf("%s is %+v (%v), want the device %q", path, info, err, want)
	}
}

func (w *world) undoDevice(staging, target string) {
	w.t.Helper()
	_, err := w.nodes["one"].NodeUnpublishVolume(w.t.Context(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: w.id, TargetPath: target})
	w.want(err, codes.OK)
	_, err = w.nodes["one"].NodeUnstageVolume(w.t.Context(),
		&csi.NodeUnstageVolumeRequest{VolumeId: w.id, StagingTargetPath: staging})
	w.want(err, codes.OK)
}

func TestDeviceLifecycle(t *testing.T) {
	w := newWorld(t)
	const staging, target = "/kubelet/staging/v", "/kubelet/publish/v/pod"
	w.stageDevice(staging, codes.FailedPrecondition) // not attached
	w.attach("one", singleNode, false, codes.OK)
	if err := w.fs["one"].MkdirAll("/kubelet/publish/v"); err != nil {
		t.Fatal(err)
	}
	w.publishDevice(staging, target, false, codes.FailedPrecondition) // not staged
	for range 2 {
		w.stageDevice(staging, codes.OK)
		w.publishDevice(staging, target, false, codes.OK)
		w.wantDevice(target, w.id)
	}
	w.publishDevice(staging, target, true, codes.AlreadyExists)
	stats, err := w.nodes["one"].NodeGetVolumeStats(t.Context(),
		&csi.NodeGetVolumeStatsRequest{VolumeId: w.id, VolumePath: target})
	w.want(err, codes.OK)
	if got := stats.GetUsage(); len(got) != 1 || got[0].GetTotal() != gibibyte || got[0].GetUsed() != 0 {
		t.Errorf("usage of a device: %v", got)
	}
	for range 2 {
		w.undoDevice(staging, target)
		w.wantDevice(target, "")
		w.wantDevice(staging+"/device", "")
	}
	if mounts, err := w.fs["one"].Mounts(); err != nil || len(mounts) != 0 {
		t.Errorf("left at the end: %v (%v)", mounts, err)
	}
}

// TestDeviceAfterReboot finds regular files instead of device nodes.
func TestDeviceAfterReboot(t *testing.T) {
	w := newWorld(t)
	const staging, target = "/kubelet/staging/v", "/kubelet/pod"
	w.attach("one", singleNode, false, codes.OK)
	w.stageDevice(staging, codes.OK)
	w.publishDevice(staging, target, false, codes.OK)
	w.fs["one"].Reset()
	w.wantDevice(target, "")
	w.publishDevice(staging, target, false, codes.FailedPrecondition)
	w.stageDevice(staging, codes.OK)
	w.publishDevice(staging, target, false, codes.OK)
	w.wantDevice(target, w.id)
	w.fs["one"].Reset()
	w.undoDevice(staging, target)
	if names, err := w.fs["one"].ReadDir(staging); err != nil || len(names) != 0 {
		t.Errorf("left where it was staged: %v (%v)", names, err)
	}
}

// TestDeviceAtOccupiedPath checks that existing files are not hidden.
func TestDeviceAtOccupiedPath(t *testing.T) {
	w := newWorld(t)
	w.attach("one", singleNode, false, codes.OK)
	w.stageDevice("/kubelet/other", codes.OK)
	first := w.id
	w.id = w.create("second", 1, 0, codes.OK)
	w.attach("one", singleNode, false, codes.OK)
	w.stageDevice("/kubelet/other", codes.AlreadyExists)
	w.wantDevice("/kubelet/other/device", first)
	w.stage("one", codes.OK)
	w.stageDevice(stagingOf(t, w.fs["one"]), codes.AlreadyExists)
}

// TestUnstageKeepsContent unstages a volume with a file named like the device's node.
func TestUnstageKeepsContent(t *testing.T) {
	w := newWorld(t)
	w.attach("one", singleNode, false, codes.OK)
	w.stage("one", codes.OK)
	staging := stagingOf(t, w.fs["one"])
	if err := w.fs["one"].WriteFile(staging+"/device", []byte("the user's")); err != nil {
		t.Fatal(err)
	}
	w.undoDevice(staging, "/kubelet/none")
	w.stage("one", codes.OK)
	if data, err := w.fs["one"].ReadFile(staging + "/device"); err != nil || string(data) != "the user's" {
		t.Errorf("the volume's file holds %q (%v)", data, err)
	}
}

func stagingOf(t *testing.T, node nodefs.FS) string {
	t.Helper()
	mounts, err := node.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, mount := range mounts {
		if mount.FSType != "devtmpfs" {
			return mount.Path
		}
	}
	t.Fatal("no file system is mounted")
	return ""
}
