package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
)

// A life performs the calls of a kubelet and the sidecars on one driver with real devices.
type life struct {
	*testing.T
	dir, root string
	kind      string
	args      []string
	p         *program
}

func newLife(t *testing.T, kind string, args ...string) *life {
	t.Helper()
	dir := t.TempDir()
	l := &life{T: t, dir: dir, kind: kind, root: filepath.Join(dir, "kubelet")}
	if err := os.Mkdir(l.root, 0o700); err != nil {
		t.Fatal(err)
	}
	l.args = append([]string{"--state", filepath.Join(dir, "state"), "--root", l.root}, args...)
	t.Cleanup(l.clean)
	l.start()
	return l
}

// start starts the program, also after it was killed.
func (l *life) start() { l.p = startDriver(l.T, socketIn(l.dir), l.kind, l.args...) }

func (l *life) crash() {
	l.Helper()
	l.p.kill()
	l.start()
}

// clean removes the devices and mounts of a failed test. A passed test leaves none.
func (l *life) clean() {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if place := strings.Fields(line)[4]; strings.HasPrefix(place, l.dir) {
			l.Errorf("leaked mount %s; unmounting: %v", place, exec.Command("umount", place).Run())
		}
	}
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		backing, _ := os.ReadFile(file)
		if !strings.HasPrefix(string(backing), l.dir) {
			continue
		}
		l.Errorf("leaked loop device %s of %s", file, backing)
		if out, err := exec.Command("losetup", "-d", "/dev/"+strings.Split(file, "/")[3]).CombinedOutput(); err != nil {
			l.Errorf("losetup -d: %s", out)
		}
	}
}

func (l *life) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *life) controller() csi.ControllerClient { return csi.NewControllerClient(l.p.conn) }
func (l *life) node() csi.NodeClient             { return csi.NewNodeClient(l.p.conn) }

func (l *life) staging(name string) string { return filepath.Join(l.root, "staging", name) }
func (l *life) target(name string) string  { return filepath.Join(l.root, "pods", name) }

func mounted() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// create creates a volume, from a snapshot unless snapshot is "".
func (l *life) create(name, snapshot string) string {
	l.Helper()
	request := &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{mounted()}, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
	}
	if snapshot != "" {
		request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: snapshot},
		}}
	}
	made, err := l.controller().CreateVolume(l.Context(), request)
	l.must(err)
	return made.GetVolume().GetVolumeId()
}

// use stages and publishes a volume.
func (l *life) use(id string) {
	l.Helper()
	_, err := l.node().NodeStageVolume(l.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: l.staging(id), VolumeCapability: mounted(),
	})
	l.must(err)
	_, err = l.node().NodePublishVolume(l.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: l.staging(id), TargetPath: l.target(id), VolumeCapability: mounted(),
	})
	l.must(err)
}

// leave unpublishes and unstages a volume.
func (l *life) leave(id string) {
	l.Helper()
	_, err := l.node().NodeUnpublishVolume(l.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: l.target(id)})
	l.must(err)
	_, err = l.node().NodeUnstageVolume(l.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: l.staging(id)})
	l.must(err)
}

func (l *life) write(id string, data []byte) {
	l.Helper()
	l.must(os.WriteFile(filepath.Join(l.target(id), "data"), data, 0o600))
}

func (l *life) wantData(id string, want []byte) {
	l.Helper()
	got, err := os.ReadFile(filepath.Join(l.target(id), "data"))
	if err != nil || !bytes.Equal(got, want) {
		l.Errorf("%s: %d bytes (%v), want the %d bytes written", id, len(got), err, len(want))
	}
}

// grow expands the file system of a volume: online or, if the kernel does not permit that, when it is staged again.
func (l *life) grow(id string) {
	l.Helper()
	_, err := l.node().NodeExpandVolume(l.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: l.target(id)})
	if status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), "staged the next time") {
		l.leave(id)
		l.use(id)
		err = nil
	}
	l.must(err)
	stats, err := l.node().NodeGetVolumeStats(l.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: l.target(id)})
	l.must(err)
	if total := stats.GetUsage()[0].GetTotal(); total < 65<<20 {
		l.Errorf("file system size %d bytes, want more", total)
	}
}

// TestRealDriverSurvivesKills creates, uses, snapshots, restores, expands and deletes volumes, and kills the program after
// each step.
func TestRealDriverSurvivesKills(t *testing.T) {
	for _, c := range []struct {
		kind  string
		args  []string
		probe func() error
	}{
		{"loop", nil, loop.Probe},
		{"lvm", []string{"--file-size", "512Mi"}, lvm.Probe},
	} {
		t.Run(c.kind, func(t *testing.T) {
			if err := c.probe(); err != nil {
				t.Skip(err)
			}
			newLife(t, c.kind, c.args...).live()
		})
	}
}

func (l *life) live() {
	first, second := bytes.Repeat([]byte("first "), 200_000), bytes.Repeat([]byte("second"), 200_000)
	one := l.create("one", "")
	l.crash()
	l.use(one)
	l.write(one, first)
	l.crash()
	l.use(one) // again, like a restarted kubelet
	l.wantData(one, first)
	snapshot, err := l.controller().CreateSnapshot(l.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: one})
	l.must(err)
	id := snapshot.GetSnapshot().GetSnapshotId()
	l.write(one, second)
	l.crash()
	two := l.create("two", id)
	l.crash()
	l.use(two)
	l.wantData(two, first)
	l.wantData(one, second)
	_, err = l.controller().ControllerExpandVolume(l.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: two, CapacityRange: &csi.CapacityRange{RequiredBytes: 80 << 20}, VolumeCapability: mounted(),
	})
	l.must(err)
	l.crash()
	l.grow(two)
	l.crash()
	l.wantData(two, first)
	for _, each := range []string{one, two} {
		health, err := l.node().NodeGetVolumeHealth(l.Context(), &csi.NodeGetVolumeHealthRequest{
			VolumeId: each, StagingTargetPath: l.staging(each), VolumePublishPath: l.target(each),
		})
		l.must(err)
		if statuses := health.GetVolumeHealth().GetHealthStatuses(); len(statuses) > 0 {
			l.Errorf("%s: %v", each, statuses)
		}
	}
	l.crash()
	l.leave(one)
	l.leave(two)
	l.crash()
	_, err = l.controller().DeleteSnapshot(l.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
	l.must(err)
	for _, each := range []string{one, two} {
		_, err = l.controller().DeleteVolume(l.Context(), &csi.DeleteVolumeRequest{VolumeId: each})
		l.must(err)
	}
	l.crash()
	remaining, err := l.controller().ListVolumes(l.Context(), &csi.ListVolumesRequest{})
	l.must(err)
	if len(remaining.GetEntries()) > 0 {
		l.Errorf("remaining volumes: %v", remaining.GetEntries())
	}
	l.p.stop()
}

// TestStateIsLockedForOneDriver starts a second driver on the state, and lists orphans while the first one runs.
func TestStateIsLockedForOneDriver(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	l := newLife(t, "loop")
	args := append([]string{"driver", "loop", "--endpoint", filepath.Join(l.dir, "other.sock")}, l.args...)
	if out, err := command(args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "a running driver keeps its volumes there") {
		t.Errorf("second driver: %v\n%s", err, out)
	}
	id := l.create("one", "")
	l.use(id)
	image := filepath.Join(l.dir, "state", "volumes", id+".img")
	orphans := func() string {
		t.Helper()
		out, err := command(append(args, "--orphans")...).CombinedOutput()
		if err != nil {
			t.Errorf("--orphans: %v", err)
		}
		return string(out)
	}
	if got := orphans(); got != "no orphans\n" {
		t.Errorf("orphans: %s", got)
	}
	l.leave(id)
	other := filepath.Join(l.dir, "state", "volumes", "unrelated")
	l.must(os.WriteFile(other, nil, 0o600))
	if _, err := os.Stat(image); err != nil {
		t.Error(err)
	}
	_, err := l.controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	l.must(err)
	if _, err := os.Stat(other); err != nil {
		t.Errorf("unrelated file removed: %v", err)
	}
	l.p.stop()
}
