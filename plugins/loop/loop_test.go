package loop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
)

// world is a driver with two nodes on this machine.
type world struct {
	testing.TB
	dir        string
	driver     *loop.Driver
	controller csi.ControllerServer
	nodes      map[string]*node
}

type node struct {
	csi.NodeServer
	fs   *nodefs.Real
	root string
}

// newWorld skips the test without real devices. After the test everything is removed; anything that
// remains fails it.
func newWorld(t testing.TB) *world {
	t.Helper()
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	base := t.TempDir()
	w := &world{TB: t, dir: filepath.Join(base, "images"), nodes: map[string]*node{}}
	w.start()
	t.Cleanup(func() {
		var err error
		for _, n := range w.nodes {
			err = errors.Join(err, n.fs.UnmountAll())
		}
		if err = errors.Join(err, w.driver.Close()); err != nil {
			t.Errorf("clean up: %v", err)
		}
		w.checkNothingLeft(base)
	})
	for _, id := range []string{"one", "two"} {
		root := filepath.Join(base, "node "+id)
		fs, err := nodefs.NewReal(root)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[id] = &node{fs: fs, root: root, NodeServer: w.driver.Node(id, fs)}
	}
	return w
}

// start creates the driver, as after a crash of an earlier one.
func (w *world) start() {
	w.Helper()
	driver, err := loop.New(loop.Config{Dir: w.dir, RunID: "test"})
	if err != nil {
		w.Fatal(err)
	}
	w.driver, w.controller = driver, driver.Controller()
	for id, n := range w.nodes {
		n.NodeServer = driver.Node(id, n.fs)
	}
}

func (w *world) checkNothingLeft(base string) {
	w.Helper()
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		if text, _ := os.ReadFile(file); strings.HasPrefix(string(text), base) {
			w.Errorf("still bound: %s to %s", file, text)
		}
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(table), base) {
		w.Errorf("still mounted below %s (%v)", base, err)
	}
}

func writer() *csi.VolumeCapability {
	return capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
}

func capability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func (w *world) wantCode(err error, want codes.Code) {
	w.Helper()
	if got := status.Code(err); got != want {
		w.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func (w *world) create(name string) string {
	w.Helper()
	response, err := w.controller.CreateVolume(w.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer()},
		CapacityRange: &csi.CapacityRange{RequiredBytes: 16 << 20},
	})
	testcheck.NoError(w, err)
	return response.GetVolume().GetVolumeId()
}

func (w *world) attach(id, nodeID string) (string, error) {
	response, err := w.controller.ControllerPublishVolume(w.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: nodeID, VolumeCapability: writer(),
	})
	return response.GetPublishContext()[blockcsi.DeviceKey], err
}

func (w *world) detach(id, nodeID string) error {
	_, err := w.controller.ControllerUnpublishVolume(w.Context(),
		&csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeID})
	return err
}

func (w *world) delete(id string) error {
	_, err := w.controller.DeleteVolume(w.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func (n *node) staging(id string) string { return filepath.Join(n.root, "staging", id) }
func (n *node) target(id string) string  { return filepath.Join(n.root, "pods", id, "mount") }

func (w *world) stage(id, nodeID, device string) error {
	n := w.nodes[nodeID]
	_, err := n.NodeStageVolume(w.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: n.staging(id), VolumeCapability: writer(),
		PublishContext: map[string]string{blockcsi.DeviceKey: device},
	})
	return err
}

func (w *world) publish(id, nodeID string, readOnly bool) error {
	n := w.nodes[nodeID]
	_, err := n.NodePublishVolume(w.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: n.staging(id), TargetPath: n.target(id),
		VolumeCapability: writer(), Readonly: readOnly,
	})
	return err
}

func (w *world) unpublish(id, nodeID string) error {
	n := w.nodes[nodeID]
	_, err := n.NodeUnpublishVolume(w.Context(), &csi.NodeUnpublishVolumeRequest{
		VolumeId: id, TargetPath: n.target(id),
	})
	return err
}

func (w *world) unstage(id, nodeID string) error {
	n := w.nodes[nodeID]
	_, err := n.NodeUnstageVolume(w.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: n.staging(id),
	})
	return err
}

func TestDataFollowsTheVolumeToAnotherNode(t *testing.T) {
	w := newWorld(t)
	id := w.create("moving")
	data := bytes.Repeat([]byte("volsim"), 1<<17)

	device, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	one, two := w.nodes["one"], w.nodes["two"]
	for range 2 { // each step is idempotent
		testcheck.NoError(w, w.stage(id, "one", device))
		testcheck.NoError(w, w.publish(id, "one", false))
	}
	testcheck.NoError(w, one.fs.WriteFile(one.target(id)+"/file", data))
	w.wantCode(w.publish(id, "one", true), codes.AlreadyExists)
	for range 2 {
		testcheck.NoError(w, w.unpublish(id, "one"))
	}
	if there, err := one.fs.Exists(one.target(id)); there || err != nil {
		t.Errorf("the target exists after NodeUnpublishVolume: %v, %v", there, err)
	}
	for range 2 {
		testcheck.NoError(w, w.unstage(id, "one"))
		testcheck.NoError(w, w.detach(id, "one"))
	}

	device, err = w.attach(id, "two")
	testcheck.NoError(w, err)
	testcheck.NoError(w, w.stage(id, "two", device))
	testcheck.NoError(w, w.publish(id, "two", true))
	got, err := two.fs.ReadFile(two.target(id) + "/file")
	testcheck.NoError(w, err)
	if !bytes.Equal(got, data) {
		t.Error("the file differs from what was written on the other node")
	}
	if err := two.fs.WriteFile(two.target(id)+"/file", nil); !errors.Is(err, nodefs.ErrReadOnly) {
		t.Errorf("write through a read-only publish: %v", err)
	}
	testcheck.NoError(w, w.unpublish(id, "two"))
	testcheck.NoError(w, w.unstage(id, "two"))
	testcheck.NoError(w, w.detach(id, ""))
	for range 2 {
		testcheck.NoError(w, w.delete(id))
	}
	if files, _ := os.ReadDir(w.dir); len(files) != 0 {
		t.Errorf("remaining after DeleteVolume: %v", files)
	}
}

func TestAttachIsForOneNodeAndIdempotent(t *testing.T) {
	w := newWorld(t)
	id := w.create("single")
	device, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	again, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	if again != device {
		t.Errorf("attached again as %s, first as %s", again, device)
	}
	_, err = w.attach(id, "two")
	w.wantCode(err, codes.FailedPrecondition)
	if !strings.Contains(fmt.Sprint(err), "attached to one") {
		t.Errorf("the error does not name the node: %v", err)
	}
	_, err = w.attach(id, "three")
	w.wantCode(err, codes.NotFound)
	_, err = w.controller.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "one", VolumeCapability: writer(), Readonly: true,
	})
	w.wantCode(err, codes.AlreadyExists)
	w.wantCode(w.delete(id), codes.FailedPrecondition)
	testcheck.NoError(w, w.detach(id, "two")) // not attached there: nothing to do
	w.wantCode(w.stage(id, "two", device), codes.FailedPrecondition)
	w.wantCode(w.stage(id, "one", ""), codes.InvalidArgument)
	w.wantCode(w.publish(id, "one", false), codes.FailedPrecondition)
}

func TestDetachIsRefusedWhileMounted(t *testing.T) {
	w := newWorld(t)
	id := w.create("mounted")
	device, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	testcheck.NoError(w, w.stage(id, "one", device))
	w.wantCode(w.detach(id, "one"), codes.FailedPrecondition)
	if err := w.driver.Close(); err == nil || !strings.Contains(err.Error(), device) {
		t.Errorf("Close with a mounted device: %v", err)
	}
	again, err := w.attach(id, "one") // and not marked for detaching
	testcheck.NoError(w, err)
	if again != device {
		t.Errorf("attached as %s, before as %s", again, device)
	}
	testcheck.NoError(w, w.nodes["one"].fs.WriteFile(w.nodes["one"].staging(id)+"/file", nil))
	testcheck.NoError(w, w.unstage(id, "one"))
	testcheck.NoError(w, w.detach(id, "one"))
}

func TestCrashLosesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.create("survivor")
	device, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	testcheck.NoError(w, w.stage(id, "one", device))
	w.start()
	if got := w.create("survivor"); got != id {
		t.Errorf("created again as %s, first as %s", got, id)
	}
	again, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	if again != device {
		t.Errorf("attached again as %s, first as %s", again, device)
	}
	_, err = w.attach(id, "two")
	w.wantCode(err, codes.FailedPrecondition)
	list, err := w.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	testcheck.NoError(w, err)
	if len(list.GetEntries()) != 1 {
		t.Fatalf("ListVolumes returned %d volumes, want 1", len(list.GetEntries()))
	}
	if diff := cmp.Diff([]string{"one"}, list.GetEntries()[0].GetStatus().GetPublishedNodeIds()); diff != "" {
		t.Errorf("published nodes (-want +got):\n%s", diff)
	}
	testcheck.NoError(w, w.stage(id, "one", device))
	testcheck.NoError(w, w.unstage(id, "one"))
	testcheck.NoError(w, w.detach(id, "one"))
}

func TestConcurrentAttachesGetDistinctDevices(t *testing.T) {
	const count = 32
	w := newWorld(t)
	var ids []string
	for i := range count {
		ids = append(ids, w.create(fmt.Sprintf("volume %d", i)))
	}
	devices, errs := make([]string, count), make([]error, 2*count)
	var group sync.WaitGroup
	for i, id := range ids {
		group.Go(func() { devices[i], errs[i] = w.attach(id, "one") })
		group.Go(func() { _, errs[count+i] = w.attach(id, "one") }) // a concurrent duplicate
	}
	group.Wait()
	testcheck.NoError(w, errors.Join(errs...))
	slices.Sort(devices)
	if distinct := len(slices.Compact(slices.Clone(devices))); distinct != count {
		t.Errorf("%d distinct devices for %d volumes: %v", distinct, count, devices)
	}
	for i, id := range ids {
		group.Go(func() { errs[i] = w.detach(id, "one") })
	}
	group.Wait()
	testcheck.NoError(w, errors.Join(errs...))
}

func TestStats(t *testing.T) {
	w := newWorld(t)
	id := w.create("stats")
	device, err := w.attach(id, "one")
	testcheck.NoError(w, err)
	testcheck.NoError(w, w.stage(id, "one", device))
	n := w.nodes["one"]
	stats := func(id, path string) (*csi.NodeGetVolumeStatsResponse, error) {
		return n.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
	}
	got, err := stats(id, n.staging(id))
	testcheck.NoError(w, err)
	for _, usage := range got.GetUsage() {
		if usage.GetTotal() <= 0 || usage.GetAvailable() <= 0 || usage.GetUsed() < 0 {
			t.Errorf("implausible usage %v", usage)
		}
	}
	_, err = stats(id, n.root+"/elsewhere")
	w.wantCode(err, codes.NotFound)
	_, err = stats("vol-none", n.staging(id))
	w.wantCode(err, codes.NotFound)
	_, err = stats(id, "/etc") // outside the node, so the volume is not there
	w.wantCode(err, codes.NotFound)
}

func TestCanceledContextStopsWaiting(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id := w.create("waiting")
	_, err := w.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "one", VolumeCapability: writer(),
	})
	w.wantCode(err, codes.Canceled)
}

func TestNewChecksItsConfig(t *testing.T) {
	for _, config := range []loop.Config{
		{}, {Dir: "relative"}, {Dir: t.TempDir(), RunID: "a:b"}, {Dir: t.TempDir(), RunID: strings.Repeat("x", 25)},
	} {
		if _, err := loop.New(config); err == nil {
			t.Errorf("New(%+v) succeeded", config)
		}
	}
}
