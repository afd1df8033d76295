package lvm

import (
	"context"
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
	"github.com/volsim/volsim/plugins/nodefs"
)

// machine is a node with a driver.
type machine struct {
	testing.TB
	dir    string
	fs     *nodefs.Real
	driver *Driver
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	needLVM(t)
	m := &machine{TB: t, dir: plainDir(t)}
	var err error
	m.fs, err = nodefs.NewReal(filepath.Join(m.dir, "node"))
	testcheck.NoError(m, err)
	m.open()
	t.Cleanup(func() {
		testcheck.NoError(m, m.fs.UnmountAll())
		testcheck.NoError(m, m.driver.Destroy(context.Background()))
	})
	return m
}

func (m *machine) open() {
	m.Helper()
	driver, err := openIn(m.dir, nil)
	testcheck.NoError(m, err)
	m.driver = driver
}

func (m *machine) create(name string, parameters map[string]string) (string, error) {
	response, err := m.driver.Controller().CreateVolume(m.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{asFile()}, Parameters: parameters,
	})
	return response.GetVolume().GetVolumeId(), err
}

func asFile() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (m *machine) publish(id string) map[string]string {
	m.Helper()
	response, err := m.driver.Controller().ControllerPublishVolume(m.Context(),
		&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: asFile()})
	testcheck.NoError(m, err)
	return response.GetPublishContext()
}

func (m *machine) staging(id string) string { return filepath.Join(m.dir, "node", "staging", id) }

func (m *machine) stage(id string, publishContext map[string]string) error {
	_, err := m.driver.Node(node, m.fs).NodeStageVolume(m.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: m.staging(id), VolumeCapability: asFile(), PublishContext: publishContext,
	})
	return err
}

// Volumes that are attached when the machine goes down get devices when they are staged, whatever
// their names.
func TestMachineRestart(t *testing.T) {
	m := newMachine(t)
	m.driver.Node(node, m.fs)
	first, err := m.create("first", nil)
	testcheck.NoError(m, err)
	second, err := m.create("second", nil)
	testcheck.NoError(m, err)
	published := map[string]map[string]string{first: m.publish(first), second: m.publish(second)}
	testcheck.NoError(m, m.stage(second, published[second]))
	testcheck.NoError(m, blockcsitest.WriteFile(filepath.Join(m.staging(second), "data"), []byte("before")))

	testcheck.NoError(m, m.fs.UnmountAll())
	testcheck.NoError(m, m.driver.pools[0].system.Detach(t.Context()))
	testcheck.NoError(m, m.driver.Close())
	m.open()
	done, err := m.driver.Recover(t.Context())
	testcheck.NoError(m, err)
	if len(done) > 0 {
		t.Errorf("recovered: %v", done)
	}
	list, err := m.driver.Controller().ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	testcheck.NoError(m, err)
	for _, each := range list.GetEntries() {
		if nodes := each.GetStatus().GetPublishedNodeIds(); len(nodes) != 1 {
			t.Errorf("%s is published on %v", each.GetVolume().GetVolumeId(), nodes)
		}
	}
	_, err = m.driver.Controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: second})
	wantStatus(t, err, codes.FailedPrecondition, "without a device")
	wantStatus(t, m.stage(second, nil), codes.InvalidArgument, blockcsi.DeviceKey)
	testcheck.NoError(m, m.stage(second, published[second])) // the first one's device may have its name now
	text, err := blockcsitest.ReadFile(filepath.Join(m.staging(second), "data"))
	if err != nil || string(text) != "before" {
		t.Errorf("read %q, %v", text, err)
	}
	devices, err := m.driver.pools[0].group.Devices(t.Context())
	testcheck.NoError(m, err)
	if len(devices) != 1 || devices[second] == "" {
		t.Errorf("active are %v", devices)
	}
}

func wantStatus(t *testing.T, err error, want codes.Code, part string) {
	t.Helper()
	if status.Code(err) != want || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want %s with %q", err, want, part)
	}
}

// An active volume that is not attached loses its device when the driver starts. Foreign volumes
// are unchanged and listed.
func TestOrphans(t *testing.T) {
	m := newMachine(t)
	id, err := m.create("volume", nil)
	testcheck.NoError(m, err)
	group := m.driver.pools[0].group
	_, err = group.Activate(t.Context(), id)
	testcheck.NoError(m, err)
	_, err = group.Create(t.Context(), lvm2.Spec{Name: "somebodys", Size: 16 << 20})
	testcheck.NoError(m, err)
	orphans, err := m.driver.Orphans(t.Context())
	testcheck.NoError(m, err)
	if text := strings.Join(orphans, "\n"); len(orphans) != 2 || !strings.Contains(text, id) ||
		!strings.Contains(text, "somebodys") {
		t.Errorf("orphans: %q", orphans)
	}
	done, err := m.driver.Recover(t.Context())
	testcheck.NoError(m, err)
	if len(done) != 1 || !strings.Contains(done[0], "deactivated "+id) {
		t.Errorf("recovered: %q", done)
	}
	if orphans, err = m.driver.Orphans(t.Context()); err != nil || len(orphans) != 1 {
		t.Errorf("orphans: %q, %v", orphans, err)
	}
}

// Attachments are recorded separately. The record of a volume that was removed manually disappears
// when another one of its name is created, or when the driver starts.
func TestAttachmentsOfRemovedVolumes(t *testing.T) {
	m := newMachine(t)
	m.driver.Node(node, m.fs)
	id, err := m.create("volume", nil)
	testcheck.NoError(m, err)
	pool := m.driver.pools[0]
	removed := func() {
		m.publish(id)
		testcheck.NoError(m, pool.group.Remove(t.Context(), id))
	}
	removed()
	if all, err := pool.Attachments(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("attached: %v, %v", all, err)
	}
	again, err := m.create("volume", nil)
	testcheck.NoError(m, err)
	if attached, err := pool.Attachment(t.Context(), blockcsi.Volume{ID: again}); err != nil || attached != nil ||
		again != id {
		t.Errorf("a new volume is attached: %v, %v", attached, err)
	}
	removed()
	_, err = m.driver.Recover(t.Context())
	testcheck.NoError(m, err)
	if noted, err := pool.attachments.List(); err != nil || len(noted) > 0 {
		t.Errorf("noted: %v, %v", noted, err)
	}
}

// A disk of another LVM is refused and unchanged.
func TestForeignDisk(t *testing.T) {
	needLVM(t)
	dir := plainDir(t)
	cfg := NodeConfig{
		Name: node, Group: groupIn(dir), Files: []File{{Path: filepath.Join(dir, "disk"), SizeBytes: 256 << 20}},
		LVM: lvm2.Config{Directory: filepath.Join(dir, "theirs"), SystemID: "volsim-test-theirs"},
	}
	theirs, err := New(t.Context(), Config{Nodes: []NodeConfig{cfg}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := theirs.pools[0].group.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg.LVM = lvm2.Config{Directory: filepath.Join(dir, "ours"), SystemID: "volsim-test-ours"}
	if _, err := New(t.Context(), Config{Nodes: []NodeConfig{cfg}}); err == nil ||
		!strings.Contains(err.Error(), lvm2.ErrForeign.Error()) {
		t.Errorf("got %v, want %v", err, lvm2.ErrForeign)
	}
	after, err := theirs.pools[0].group.Report(t.Context())
	if err != nil || after.Sequence != before.Sequence {
		t.Errorf("it was changed: %v, %v", after, err)
	}
	if err := theirs.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	ours, err := New(t.Context(), Config{Nodes: []NodeConfig{cfg}})
	if err != nil {
		t.Fatalf("a disk without an owner was refused: %v", err)
	}
	if err := ours.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInvalidParameters(t *testing.T) {
	m := newMachine(t)
	mapped := hasMapper()
	for _, each := range []map[string]string{{"layuot": "linear"}, {layoutKey: "round"}, {stripesKey: "2"}} {
		_, err := m.create("volume", each)
		for key := range each {
			wantStatus(t, err, codes.InvalidArgument, key)
		}
	}
	pool := m.driver.pools[0]
	for _, layout := range []string{"thin", "striped", "raid1"} {
		if err := pool.ValidateParameters(map[string]string{layoutKey: layout}, nil); (err == nil) != mapped {
			t.Errorf("%s with device-mapper %v: %v", layout, mapped, err)
		}
	}
	if err := pool.ValidateParameters(nil, map[string]string{readAheadKey: "64"}); (err == nil) != mapped {
		t.Errorf("%s with device-mapper %v: %v", readAheadKey, mapped, err)
	}
	wantStatus(t, pool.ValidateParameters(nil, map[string]string{discardKey: "yes"}), codes.InvalidArgument, discardKey)
	if groups := len(groupCapabilities(t, m)); (groups > 0) == mapped {
		t.Errorf("%d capabilities of groups, with device-mapper %v", groups, mapped)
	}
}

func groupCapabilities(t *testing.T, m *machine) []*csi.GroupControllerServiceCapability {
	t.Helper()
	response, err := m.driver.GroupController().GroupControllerGetCapabilities(t.Context(),
		&csi.GroupControllerGetCapabilitiesRequest{})
	testcheck.NoError(m, err)
	return response.GetCapabilities()
}

func TestSettingsArePersistent(t *testing.T) {
	m := newMachine(t)
	id, err := m.create("volume", nil)
	testcheck.NoError(m, err)
	for _, discard := range []string{"true", "false"} {
		_, err := m.driver.Controller().ControllerModifyVolume(t.Context(),
			&csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: map[string]string{discardKey: discard}})
		testcheck.NoError(m, err)
		testcheck.NoError(m, m.driver.Close())
		m.open()
		volume, err := m.driver.pools[0].Volume(t.Context(), id)
		testcheck.NoError(m, err)
		if volume.Settings[discardKey] != discard || volume.Discard != (discard == "true") {
			t.Errorf("after %s: %v", discard, volume)
		}
	}
}
