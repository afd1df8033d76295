package lvm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
)

const mebibyte = 1 << 20

// world is a driver with a volume group for each of two nodes.
type world struct {
	*testing.T
	dir    string
	config lvm.Config
	driver *lvm.Driver
	nodes  map[string]csi.NodeServer
	disks  map[string]*nodefs.Real
}

// newWorld skips the test without LVM. It checks that nothing remains.
func newWorld(t *testing.T) *world {
	t.Helper()
	if err := lvm.Probe(); err != nil {
		t.Skip(err)
	}
	w := &world{T: t, dir: t.TempDir(), nodes: map[string]csi.NodeServer{}, disks: map[string]*nodefs.Real{}}
	for _, node := range []string{"one", "two"} {
		w.config.Nodes = append(w.config.Nodes, lvm.NodeConfig{
			Name:  node,
			LVM:   lvm2.Config{Directory: filepath.Join(w.dir, "lvm-"+node), SystemID: "volsim-test-" + node},
			Files: []lvm.File{{Path: filepath.Join(w.dir, node+".disk"), SizeBytes: 512 * mebibyte}},
		})
		disk, err := nodefs.NewReal(filepath.Join(w.dir, "node-"+node))
		if err != nil {
			t.Fatal(err)
		}
		w.disks[node] = disk
	}
	w.start()
	t.Cleanup(func() {
		var err error
		for _, disk := range w.disks {
			err = errors.Join(err, disk.UnmountAll())
		}
		if err = errors.Join(err, w.driver.Destroy(context.Background())); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return w
}

func (w *world) start() {
	w.Helper()
	driver, err := lvm.New(w.Context(), w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.driver = driver
	for node, disk := range w.disks {
		w.nodes[node] = driver.Node(node, disk)
	}
}

func writer() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func on(node string) *csi.TopologyRequirement {
	return &csi.TopologyRequirement{Preferred: []*csi.Topology{{Segments: map[string]string{lvm.TopologyKey: node}}}}
}

func (w *world) create(name, node string, sizeBytes int64) (*csi.Volume, error) {
	response, err := w.driver.Controller().CreateVolume(w.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer()}, AccessibilityRequirements: on(node),
		CapacityRange: &csi.CapacityRange{RequiredBytes: sizeBytes},
	})
	return response.GetVolume(), err
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestLogicalVolumeLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	volume, err := w.create("a claim's", "two", 100*mebibyte)
	testcheck.NoError(w, err)
	if got := volume.GetAccessibleTopology()[0].GetSegments()[lvm.TopologyKey]; got != "two" ||
		volume.GetCapacityBytes() != 100*mebibyte {
		t.Errorf("the volume is on %q and has %d bytes", got, volume.GetCapacityBytes())
	}
	again, err := w.create("a claim's", "two", 100*mebibyte)
	testcheck.NoError(w, err)
	if again.GetVolumeId() != volume.GetVolumeId() {
		t.Errorf("created a second volume: %s, %s", again.GetVolumeId(), volume.GetVolumeId())
	}
	_, err = w.create("a claim's", "two", 200*mebibyte)
	wantCode(t, err, codes.AlreadyExists)
	_, err = w.create("too large", "two", 600*mebibyte)
	wantCode(t, err, codes.ResourceExhausted)

	id := volume.GetVolumeId()
	publish := func(node string) (string, error) {
		response, err := w.driver.Controller().ControllerPublishVolume(ctx,
			&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: writer()})
		return response.GetPublishContext()[blockcsi.DeviceKey], err
	}
	_, err = publish("one")
	wantCode(t, err, codes.FailedPrecondition)
	device, err := publish("two")
	testcheck.NoError(w, err)
	staging := filepath.Join(w.dir, "node-two", "staging")
	_, err = w.nodes["two"].NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: writer(),
		PublishContext: map[string]string{blockcsi.DeviceKey: device},
	})
	testcheck.NoError(w, err)
	testcheck.NoError(w, blockcsitest.WriteFile(filepath.Join(staging, "data"), []byte("written by a pod")))

	testcheck.NoError(w, w.driver.Close())
	w.start()
	_, err = w.driver.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = w.driver.Controller().ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 200 * mebibyte},
	})
	testcheck.NoError(w, err)
	list, err := w.driver.Controller().ListVolumes(ctx, &csi.ListVolumesRequest{})
	testcheck.NoError(w, err)
	if entries := list.GetEntries(); len(entries) != 1 || entries[0].GetVolume().GetCapacityBytes() != 200*mebibyte ||
		strings.Join(entries[0].GetStatus().GetPublishedNodeIds(), ",") != "two" {
		t.Errorf("list: %v", list)
	}

	_, err = w.nodes["two"].NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging,
	})
	testcheck.NoError(w, err)
	_, err = w.driver.Controller().ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{
		VolumeId: id, NodeId: "two",
	})
	testcheck.NoError(w, err)
	device, err = publish("two")
	testcheck.NoError(w, err)
	_, err = w.nodes["two"].NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: writer(),
		PublishContext: map[string]string{blockcsi.DeviceKey: device},
	})
	testcheck.NoError(w, err)
	data, err := blockcsitest.ReadFile(filepath.Join(staging, "data"))
	testcheck.NoError(w, err)
	if string(data) != "written by a pod" {
		t.Errorf("read %q", data)
	}
	_, err = w.nodes["two"].NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging,
	})
	testcheck.NoError(w, err)
	_, err = w.driver.Controller().ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
	testcheck.NoError(w, err)
	_, err = w.driver.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	testcheck.NoError(w, err)
}

func TestCopiesHaveTheContentOfTheirSource(t *testing.T) {
	if _, err := os.Stat("/dev/mapper/control"); err == nil && testing.Short() {
		t.Skip("short: with device-mapper TestDataSurvive restores a snapshot, and clones, in a slow guest")
	}
	w := newWorld(t)
	ctx := t.Context()
	volume, err := w.create("origin", "one", 64*mebibyte)
	testcheck.NoError(w, err)
	id := volume.GetVolumeId()
	staging := filepath.Join(w.dir, "node-one", "staging")
	w.stage("one", id, staging)
	testcheck.NoError(w, blockcsitest.WriteFile(filepath.Join(staging, "data"), []byte("before")))
	snapshot, err := w.driver.Controller().CreateSnapshot(ctx, &csi.CreateSnapshotRequest{
		Name: "s", SourceVolumeId: id,
	})
	testcheck.NoError(w, err)
	if made := snapshot.GetSnapshot(); made.GetSourceVolumeId() != id || made.GetSizeBytes() != 64*mebibyte ||
		made.GetCreationTime().AsTime().IsZero() {
		t.Errorf("the snapshot is %v", made)
	}
	testcheck.NoError(w, blockcsitest.WriteFile(filepath.Join(staging, "data"), []byte("after")))

	restore := func(name string, source *csi.VolumeContentSource, want string) {
		t.Helper()
		made, err := w.driver.Controller().CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer()}, VolumeContentSource: source,
			CapacityRange: &csi.CapacityRange{RequiredBytes: 96 * mebibyte},
		})
		testcheck.NoError(w, err)
		if got := made.GetVolume(); got.GetCapacityBytes() != 96*mebibyte || got.GetContentSource() == nil {
			t.Errorf("%s is %v", name, got)
		}
		place := filepath.Join(w.dir, "node-one", name)
		w.stage("one", made.GetVolume().GetVolumeId(), place)
		data, err := blockcsitest.ReadFile(filepath.Join(place, "data"))
		if err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v; want %q", name, data, err, want)
		}
		w.unstage("one", made.GetVolume().GetVolumeId(), place)
	}
	restore("restored", &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot.GetSnapshot().GetSnapshotId()},
	}}, "before")
	restore("cloned", &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}, "after")
	w.unstage("one", id, staging)
}

func (w *world) stage(node, id, place string) {
	w.Helper()
	published, err := w.driver.Controller().ControllerPublishVolume(w.Context(),
		&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: writer()})
	testcheck.NoError(w, err)
	_, err = w.nodes[node].NodeStageVolume(w.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: place, VolumeCapability: writer(),
		PublishContext: published.GetPublishContext(),
	})
	testcheck.NoError(w, err)
}

func (w *world) unstage(node, id, place string) {
	w.Helper()
	_, err := w.nodes[node].NodeUnstageVolume(w.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: place,
	})
	testcheck.NoError(w, err)
	_, err = w.driver.Controller().ControllerUnpublishVolume(w.Context(),
		&csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	testcheck.NoError(w, err)
}
