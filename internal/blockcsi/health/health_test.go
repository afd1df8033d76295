package health_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/health"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	mebibyte = 1 << 20
	nodeID   = "node-1"
)

// world is a driver on loop devices with one node and one mounted volume.
type world struct {
	*testing.T
	dir, root  string
	id         string
	device     string
	controller csi.ControllerServer
	node       csi.NodeServer
}

// newWorld skips the test without real devices. It checks that nothing remains.
func newWorld(t *testing.T, cfg health.Config, mountFlags ...string) *world {
	t.Helper()
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "images"), root: filepath.Join(t.TempDir(), "root")}
	driver, err := loop.New(loop.Config{Dir: w.dir})
	testcheck.NoError(w, err)
	fs, err := nodefs.NewReal(w.root)
	testcheck.NoError(w, err)
	services := health.New(driver.Driver, cfg)
	w.controller, w.node = services.Controller(), services.Node(nodeID, fs)
	t.Cleanup(func() {
		if err := errors.Join(fs.UnmountAll(), driver.Close()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	w.id = csireq.VolumeID("v")
	_, err = w.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "v", VolumeCapabilities: []*csi.VolumeCapability{writer()},
		CapacityRange: &csi.CapacityRange{RequiredBytes: 32 * mebibyte},
	})
	testcheck.NoError(w, err)
	published, err := w.controller.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: w.id, NodeId: nodeID, VolumeCapability: writer(),
	})
	testcheck.NoError(w, err)
	w.device = published.GetPublishContext()[blockcsi.DeviceKey]
	_, err = w.node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: w.id, StagingTargetPath: w.staging(), VolumeCapability: writer(mountFlags...),
		PublishContext: published.GetPublishContext(),
	})
	testcheck.NoError(w, err)
	return w
}

func writer(mountFlags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
			FsType: "ext4", MountFlags: mountFlags,
		}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (w *world) staging() string { return filepath.Join(w.root, "staging") }
func (w *world) image() string   { return filepath.Join(w.dir, w.id+".img") }

// wantHealth compares the results of all three calls.
func (w *world) wantHealth(want ...string) {
	w.Helper()
	one, err := w.controller.ControllerGetVolumeHealth(w.Context(),
		&csi.ControllerGetVolumeHealthRequest{VolumeId: w.id})
	testcheck.NoError(w, err)
	w.compare("ControllerGetVolumeHealth", one.GetVolumeHealth(), want)
	here, err := w.node.NodeGetVolumeHealth(w.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: w.id})
	testcheck.NoError(w, err)
	w.compare("NodeGetVolumeHealth", here.GetVolumeHealth(), want)
	all, err := w.controller.ControllerListVolumeHealth(w.Context(), &csi.ControllerListVolumeHealthRequest{})
	testcheck.NoError(w, err)
	switch entries := all.GetEntries(); {
	case len(want) == 0 && len(entries) > 0:
		w.Errorf("ControllerListVolumeHealth lists %v, want none", entries)
	case len(want) > 0 && len(entries) != 1:
		w.Errorf("ControllerListVolumeHealth lists %d volumes, want 1", len(entries))
	case len(want) > 0:
		w.compare("ControllerListVolumeHealth", entries[0], want)
	}
}

func (w *world) compare(call string, got *csi.VolumeHealth, want []string) {
	w.Helper()
	var words []string
	for _, each := range got.GetHealthStatuses() {
		words = append(words, each.GetStatus().String()+" "+each.GetReason())
		if each.GetMessage() == "" {
			w.Errorf("%s: %s has no message", call, each.GetReason())
		}
	}
	if !slices.Equal(words, want) {
		w.Errorf("%s: got %q, want %q", call, words, want)
	}
}

func TestHealthyVolume(t *testing.T) {
	w := newWorld(t, health.Config{LowBytes: 1})
	w.wantHealth()
	storage, err := w.node.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
	testcheck.NoError(w, err)
	if len(storage.GetBackendHealth()) > 0 {
		t.Errorf("storage: %v", storage.GetBackendHealth())
	}
	for what, err := range map[string]error{
		"controller": second(w.controller.ControllerGetVolumeHealth(t.Context(),
			&csi.ControllerGetVolumeHealthRequest{VolumeId: "vol-0123456789abcdef"})),
		"node": second(w.node.NodeGetVolumeHealth(t.Context(),
			&csi.NodeGetVolumeHealthRequest{VolumeId: "vol-0123456789abcdef"})),
	} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s: missing volume: %v, want NotFound", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTruncatedFileIsDataLoss(t *testing.T) {
	w := newWorld(t, health.Config{LowBytes: 1})
	testcheck.NoError(w, os.Truncate(w.image(), 20*mebibyte))
	w.wantHealth("DATA_LOSS VolumeCutShort", "INACCESSIBLE DeviceUnreadable")
	testcheck.NoError(w, os.Truncate(w.image(), 32*mebibyte))
	w.wantHealth()
}

func TestRemovedFileIsDataLoss(t *testing.T) {
	w := newWorld(t, health.Config{LowBytes: 1})
	testcheck.NoError(w, os.Remove(w.image()))
	w.wantHealth("DATA_LOSS BackingRemoved")
}

// TestFileSystemErrorsAreReported makes the kernel count a file system error.
func TestFileSystemErrorsAreReported(t *testing.T) {
	for _, c := range []struct {
		flag string
		want []string
	}{
		{"errors=continue", []string{"DEGRADED FileSystemErrors"}},
		{"errors=remount-ro", []string{"DEGRADED FileSystemErrors", "DEGRADED FileSystemReadOnly"}},
	} {
		t.Run(c.flag, func(t *testing.T) {
			w := newWorld(t, health.Config{LowBytes: 1}, c.flag)
			trigger := filepath.Join("/sys/fs/ext4", filepath.Base(w.device), "trigger_fs_error")
			if err := os.WriteFile(trigger, []byte("a test asked for it"), 0o200); err != nil {
				t.Skipf("the kernel does not support fault injection here: %v", err)
			}
			w.awaitCount(filepath.Join(filepath.Dir(trigger), "errors_count"))
			w.wantHealth(c.want...)
		})
	}
}

// awaitCount waits until the kernel has counted an error, which happens asynchronously.
func (w *world) awaitCount(file string) {
	w.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); runtime.Gosched() {
		text, err := os.ReadFile(file)
		testcheck.NoError(w, err)
		if strings.TrimSpace(string(text)) != "0" {
			return
		}
	}
	w.Fatalf("%s stays 0", file)
}

func TestMissingMountIsReported(t *testing.T) {
	w := newWorld(t, health.Config{LowBytes: 1})
	at := func(staging, target string) *csi.VolumeHealth {
		t.Helper()
		got, err := w.node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{
			VolumeId: w.id, StagingTargetPath: staging, VolumePublishPath: target,
		})
		testcheck.NoError(w, err)
		return got.GetVolumeHealth()
	}
	target := filepath.Join(w.root, "target")
	w.compare("staged", at(w.staging(), ""), nil)
	w.compare("not published", at(w.staging(), target), []string{"INACCESSIBLE NotMounted"})
	w.compare("outside the node", at("", "/etc"), []string{"INACCESSIBLE NotMounted"})
	_, err := w.node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: w.id, StagingTargetPath: w.staging(), TargetPath: target, VolumeCapability: writer(),
	})
	testcheck.NoError(w, err)
	w.compare("published", at(w.staging(), target), nil)
	testcheck.NoError(w, exec.Command("umount", target).Run())
	w.compare("unmounted behind the driver's back", at(w.staging(), target), []string{"INACCESSIBLE NotMounted"})
	testcheck.NoError(w, exec.Command("mount", "-t", "tmpfs", "none", target).Run())
	w.compare("another file in its place", at(w.staging(), target), []string{"INACCESSIBLE NotMounted"})
	testcheck.NoError(w, exec.Command("umount", target).Run())
	testcheck.NoError(w, exec.Command("umount", w.staging()).Run())
	_, err = w.controller.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{
		VolumeId: w.id, NodeId: nodeID,
	})
	testcheck.NoError(w, err)
	w.compare("detached", at(w.staging(), ""), []string{"INACCESSIBLE NotAttached"})
	w.wantHealth() // an unused volume has no problems
}

func TestBlockVolumeIsFoundAtStagingPath(t *testing.T) {
	w := newWorld(t, health.Config{LowBytes: 1})
	id := csireq.VolumeID("block")
	capability := &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: writer().GetAccessMode(),
	}
	_, err := w.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "block", VolumeCapabilities: []*csi.VolumeCapability{capability},
	})
	testcheck.NoError(w, err)
	published, err := w.controller.ControllerPublishVolume(t.Context(),
		&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: nodeID, VolumeCapability: capability})
	testcheck.NoError(w, err)
	staging, target := filepath.Join(w.root, "block"), filepath.Join(w.root, "device")
	_, err = w.node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: capability,
		PublishContext: published.GetPublishContext(),
	})
	testcheck.NoError(w, err)
	_, err = w.node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: capability,
	})
	testcheck.NoError(w, err)
	got, err := w.node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{
		VolumeId: id, StagingTargetPath: staging, VolumePublishPath: target,
	})
	testcheck.NoError(w, err)
	w.compare("a block volume", got.GetVolumeHealth(), nil)
}

// TestLowCapacityIsReported sets a threshold that exceeds any disk.
func TestLowCapacityIsReported(t *testing.T) {
	w := newWorld(t, health.Config{LowBytes: 1 << 62})
	storage, err := w.node.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
	testcheck.NoError(w, err)
	all := storage.GetBackendHealth()
	if len(all) != 1 || all[0].GetReason() != "PoolNearlyFull" ||
		all[0].GetStatus() != csi.StorageHealthErrorType_STORAGE_DEGRADED {
		t.Errorf("storage: %v, want PoolNearlyFull", all)
	}
	w.wantHealth() // there is room for the unallocated part of the volume
}

// TestFullBackingStoreIsReported stores volumes on a small file system.
func TestFullBackingStoreIsReported(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs to be full: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("clean up: %s", out)
		}
	})
	driver, err := loop.New(loop.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := nodefs.NewReal(filepath.Join(t.TempDir(), "root"))
	if err != nil {
		t.Fatal(err)
	}
	services := health.New(driver.Driver, health.Config{})
	w := &world{
		T: t, dir: dir, id: csireq.VolumeID("v"), controller: services.Controller(), node: services.Node(nodeID, fs),
	}
	_, err = w.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "v", VolumeCapabilities: []*csi.VolumeCapability{writer()},
		CapacityRange: &csi.CapacityRange{RequiredBytes: 100 * mebibyte},
	})
	testcheck.NoError(w, err)
	w.wantHealth("DEGRADED BackingStoreNearlyFull")
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(full, make([]byte, 80*mebibyte), 0o600); err == nil {
		t.Fatal("80 MiB fit in 64")
	}
	w.wantHealth("DEGRADED BackingStoreFull")
	storage, err := w.node.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
	testcheck.NoError(w, err)
	if words := storage.String(); !strings.Contains(words, "PoolFull") {
		t.Errorf("storage: %s, want PoolFull", words)
	}
	testcheck.NoError(w, os.Remove(full))
}
