package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// rig is a driver with a node "one", whose volumes have ext4.
type rig struct {
	*testing.T
	*Driver
	cfg  Config
	root string
	fs   *nodefs.Real
	node csi.NodeServer
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	needDevices(t)
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "images")
	}
	r := &rig{T: t, cfg: cfg, root: filepath.Join(t.TempDir(), "node")}
	var err error
	r.fs, err = nodefs.NewReal(r.root)
	testcheck.NoError(t, err)
	r.again()
	t.Cleanup(func() {
		if err := errors.Join(r.fs.UnmountAll(), r.Close()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return r
}

// again recreates the driver, as after a crash.
func (r *rig) again() {
	r.Helper()
	d, err := New(r.cfg)
	testcheck.NoError(r.T, err)
	r.Driver, r.node = d, d.Node("one", r.fs)
}

// make creates a volume, of 64 MiB by default.
func (r *rig) make(name string, change func(*csi.CreateVolumeRequest)) (string, error) {
	request := &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer}}
	if change != nil {
		change(request)
	}
	response, err := r.Controller().CreateVolume(r.Context(), request)
	return response.GetVolume().GetVolumeId(), err
}

func (r *rig) mustMake(name string, change func(*csi.CreateVolumeRequest)) string {
	r.Helper()
	id, err := r.make(name, change)
	testcheck.NoError(r.T, err)
	return id
}

func with(key, value string) func(*csi.CreateVolumeRequest) {
	return func(request *csi.CreateVolumeRequest) { request.Parameters = map[string]string{key: value} }
}

func (r *rig) staging(id string) string { return filepath.Join(r.root, "staging", id) }

func (r *rig) stage(id string, capability *csi.VolumeCapability) error {
	context := map[string]string{}
	if !r.cfg.NodeAttaches {
		context[blockcsi.DeviceKey] = mustAttach(r.T, r.Driver, id)
	}
	_, err := r.node.NodeStageVolume(r.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: r.staging(id), VolumeCapability: capability, PublishContext: context,
	})
	return err
}

func (r *rig) unstage(id string) error {
	_, err := r.node.NodeUnstageVolume(r.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: r.staging(id),
	})
	return err
}

func (r *rig) publish(id, target string, capability *csi.VolumeCapability) error {
	testcheck.NoError(r.T, os.MkdirAll(filepath.Dir(target), 0o750))
	_, err := r.node.NodePublishVolume(r.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: r.staging(id), TargetPath: target, VolumeCapability: capability,
	})
	return err
}

func (r *rig) snapshot(ctx context.Context, name, source string) (string, error) {
	response, err := r.Controller().CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: source})
	return response.GetSnapshot().GetSnapshotId(), err
}

// blocks returns the number of bytes that a volume occupies in Dir.
func (r *rig) blocks(id string) int64 {
	r.Helper()
	info, err := os.Stat(r.pool.image(id))
	testcheck.NoError(r.T, err)
	return allocated(info)
}

// wantThawed checks that the file system at a path accepts a write.
func wantThawed(t *testing.T, place string) {
	t.Helper()
	dir, err := os.Open(place)
	testcheck.NoError(t, err)
	defer dir.Close()
	const fiThaw = 0xC0045878
	if err := unix.IoctlSetInt(int(dir.Fd()), fiThaw, 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("%s is still frozen (thaw returned %v)", place, err)
	}
}

func TestParametersAndSettingsAreValidated(t *testing.T) {
	d, err := New(Config{Dir: t.TempDir()}) // needs no root
	testcheck.NoError(t, err)
	tests := []struct {
		name, key, value string
		setting          bool
		want             codes.Code
		message          string
	}{
		{name: "allocate", key: allocateKey, value: allocateFull},
		{
			name: "allocate something", key: allocateKey, value: "some", want: codes.InvalidArgument,
			message: `allocate is "some", want sparse or full`,
		},
		{
			name: "direct I/O", key: directIOKey, value: "yes", want: codes.InvalidArgument,
			message: `directIO is "yes", want true or false`,
		},
		{name: "of a sidecar", key: "csi.storage.k8s.io/pvc/name", value: "x"},
		{
			name: "unknown", key: "thin", value: "x", want: codes.InvalidArgument,
			message: `unknown key "thin" (have allocate, directIO)`,
		},
		{name: "read-ahead", key: readAheadKey, value: "512", setting: true},
		{
			name: "negative read-ahead", key: readAheadKey, value: "-1", setting: true, want: codes.InvalidArgument,
			message: `readAheadKiB is "-1"`,
		},
		{
			name: "no number", key: readAheadKey, value: "1k", setting: true, want: codes.InvalidArgument,
			message: "a number from 0 to 65536",
		},
		{
			name: "discard", key: discardKey, value: "on", setting: true, want: codes.InvalidArgument,
			message: `discard is "on", want true or false`,
		},
		{
			name: "unknown setting", key: "iops", value: "1", setting: true, want: codes.InvalidArgument,
			message: "discard, readAheadKiB",
		},
		{
			name: "a parameter for a setting", key: allocateKey, value: allocateFull, setting: true,
			want: codes.InvalidArgument, message: `mutable_parameters: unknown key "allocate"`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := &csi.CreateVolumeRequest{Name: test.name, VolumeCapabilities: []*csi.VolumeCapability{writer}}
			if test.setting {
				request.MutableParameters = map[string]string{test.key: test.value}
			} else {
				request.Parameters = map[string]string{test.key: test.value}
			}
			_, err := d.Controller().CreateVolume(t.Context(), request)
			wantCode(t, err, test.want)
			if message := status.Convert(err).Message(); !strings.Contains(message, test.message) {
				t.Errorf("message is %q, want %q in it", message, test.message)
			}
		})
	}
}

func TestFullVolumesKeepTheirBlocks(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			r := newRig(t, Config{})
			wanted := &csi.VolumeCapability{
				AccessMode: writer.GetAccessMode(),
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
			}
			if !slices.Contains(r.pool.Capabilities().FSTypes, fsType) {
				t.Skipf("the tools of %s are not installed", fsType)
			}
			id := r.mustMake("full", func(request *csi.CreateVolumeRequest) {
				request.Parameters = map[string]string{allocateKey: allocateFull}
				request.VolumeCapabilities = []*csi.VolumeCapability{wanted}
			})
			volume, err := r.pool.Volume(t.Context(), id)
			testcheck.NoError(t, err)
			testcheck.NoError(t, r.stage(id, wanted))
			testcheck.NoError(t, blockcsitest.WriteFile(r.staging(id)+"/file", make([]byte, 16*mebibyte)))
			testcheck.NoError(t, os.Remove(r.staging(id)+"/file"))
			testcheck.NoError(t, r.unstage(id))
			if got := r.blocks(id); got < volume.SizeBytes {
				t.Errorf("occupies %d bytes, want all of %d", got, volume.SizeBytes)
			}
			_, err = r.Controller().ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
				VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: volume.SizeBytes + 16*mebibyte},
			})
			testcheck.NoError(t, err)
			if got := r.blocks(id); got < volume.SizeBytes+16*mebibyte {
				t.Errorf("occupies %d bytes after growing by 16 MiB, before %d", got, volume.SizeBytes)
			}
		})
	}
}

func TestFullCopiesShareNoBlocks(t *testing.T) {
	r := newRig(t, Config{Dir: filepath.Join(store(t, "xfs", 2<<30), "images")})
	source := r.mustMake("source", nil)
	testcheck.NoError(t, os.WriteFile(r.pool.image(source), make([]byte, 64*mebibyte), 0o600))
	before, err := freeBytes(r.cfg.Dir)
	testcheck.NoError(t, err)
	_ = r.mustMake("full", func(request *csi.CreateVolumeRequest) {
		request.Parameters = map[string]string{allocateKey: allocateFull}
		request.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source},
		}}
	})
	after, err := freeBytes(r.cfg.Dir)
	testcheck.NoError(t, err)
	if before-after < 64*mebibyte {
		t.Errorf("a full copy of 64 MiB took %d bytes", before-after)
	}
}

func TestSparseVolumesFreeBlocks(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("sparse", nil)
	testcheck.NoError(t, r.stage(id, writer))
	testcheck.NoError(t, blockcsitest.WriteFile(r.staging(id)+"/file", []byte(strings.Repeat("x", 24*mebibyte))))
	testcheck.NoError(t, exec.Command("sync", "-f", r.staging(id)).Run())
	full := r.blocks(id)
	testcheck.NoError(t, os.Remove(r.staging(id)+"/file"))
	testcheck.NoError(t, exec.Command("sync", "-f", r.staging(id)).Run())
	testcheck.NoError(t, exec.Command("fstrim", r.staging(id)).Run()) // which waits for pending discards
	testcheck.NoError(t, r.unstage(id))
	if left := r.blocks(id); full < 24*mebibyte || left > full-16*mebibyte {
		t.Errorf("%d bytes taken, %d after 24 MiB were freed", full, left)
	}
	device, err := os.OpenFile(mustAttach(t, r.Driver, id), os.O_RDWR, 0)
	testcheck.NoError(t, err)
	defer device.Close()
	extent := [2]uint64{0, 64 * mebibyte}
	testcheck.NoError(t, discard(device, extent))
	if left := r.blocks(id); left > mebibyte {
		t.Errorf("%d bytes taken after the device was discarded", left)
	}
}

// discard sends BLKDISCARD.
func discard(device *os.File, extent [2]uint64) error {
	if err := exec.Command("blkdiscard", "-o", fmt.Sprint(extent[0]), "-l", fmt.Sprint(extent[1]),
		device.Name()).Run(); err != nil {
		return fmt.Errorf("blkdiscard: %w", err)
	}
	return nil
}

func TestReserveIsKept(t *testing.T) {
	// A file system of its own without other users.
	r := newRig(t, Config{Dir: filepath.Join(store(t, "ext4", 512<<20), "images")})
	free, err := freeBytes(r.cfg.Dir)
	testcheck.NoError(t, err)
	r.cfg.ReserveBytes = free - 100*mebibyte
	r.again()
	capacity, err := r.Controller().GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	testcheck.NoError(t, err)
	if got := capacity.GetAvailableCapacity(); got < 99*mebibyte || got > 100*mebibyte {
		t.Errorf("%d bytes available, want nearly 100 MiB", got)
	}
	_, err = r.make("too large", func(request *csi.CreateVolumeRequest) {
		with(allocateKey, allocateFull)(request)
		request.CapacityRange = &csi.CapacityRange{RequiredBytes: 128 * mebibyte}
	})
	wantCode(t, err, codes.ResourceExhausted)
	if message := status.Convert(err).Message(); !strings.Contains(message, "free some space there") ||
		!strings.Contains(message, "reserve") {
		t.Errorf("message is %q", message)
	}
	full := r.mustMake("full", with(allocateKey, allocateFull))
	_, err = r.Controller().ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: full, CapacityRange: &csi.CapacityRange{RequiredBytes: 200 * mebibyte},
	})
	wantCode(t, err, codes.ResourceExhausted)
	testcheck.NoError(t, r.stage(full, writer))
	_, err = r.snapshot(t.Context(), "no room", full) // of 64 MiB, of which 36 are free
	wantCode(t, err, codes.ResourceExhausted)
	wantThawed(t, r.staging(full))
	sparse := r.mustMake("sparse", func(request *csi.CreateVolumeRequest) {
		request.CapacityRange = &csi.CapacityRange{RequiredBytes: 200 * mebibyte}
	})
	r.cfg.ReserveBytes = free
	r.again()
	_, err = r.make("not even a sparse one", nil)
	wantCode(t, err, codes.ResourceExhausted)
	if entries, err := os.ReadDir(r.cfg.Dir); err != nil || len(entries) != 5 {
		t.Errorf("%v (%v), want the files of %s, which is attached, and %s only", entries, err, full, sparse)
	}
}

func TestSettingsTakeEffectAtOnce(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("set", func(request *csi.CreateVolumeRequest) {
		request.MutableParameters = map[string]string{readAheadKey: "64"}
	})
	device := mustAttach(t, r.Driver, id)
	want := func(kibibytes int64) {
		t.Helper()
		if got, err := readDevice(device, "queue/read_ahead_kb"); err != nil || got != kibibytes {
			t.Errorf("reads %d KiB ahead (%v), want %d", got, err, kibibytes)
		}
	}
	modify := func(id string, settings map[string]string) error {
		_, err := r.Controller().ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{
			VolumeId: id, MutableParameters: settings,
		})
		return err
	}
	want(64)
	for range 2 {
		testcheck.NoError(t, modify(id, map[string]string{readAheadKey: "512", discardKey: "false"}))
		want(512)
	}
	testcheck.NoError(t, modify(id, map[string]string{discardKey: "true"})) // the other setting stays
	want(512)
	wantCode(t, modify(id, map[string]string{readAheadKey: "many"}), codes.InvalidArgument)
	wantCode(t, modify("vol-0000000000000000", map[string]string{readAheadKey: "1"}), codes.NotFound)
	want(512)

	_, err := setReadAhead(device, 32) // as if the driver had been killed before it was set
	testcheck.NoError(t, err)
	r.again()
	done, err := r.Recover(t.Context())
	if testcheck.NoError(t, err); !slices.Equal(done, []string{"applied the settings of " + id + " to " + device}) {
		t.Errorf("recovered: %q", done)
	}
	want(512)
	testcheck.NoError(t, detach(t.Context(), r.Driver, id))
	device = mustAttach(t, r.Driver, id)
	want(512)
	if id != r.mustMake("set", nil) { // a volume that was modified since is the same volume
		t.Error("created again as another volume")
	}
}

func TestDiscardMountOption(t *testing.T) {
	r := newRig(t, Config{})
	options := func(id string) string {
		t.Helper()
		testcheck.NoError(t, r.stage(id, writer))
		out, err := exec.Command("findmnt", "-n", "-o", "OPTIONS", r.staging(id)).Output()
		testcheck.NoError(t, err)
		testcheck.NoError(t, r.unstage(id))
		return string(out)
	}
	id := r.mustMake("set", nil)
	if got := options(id); !strings.Contains(got, "discard") {
		t.Errorf("a sparse volume is mounted with %s", got)
	}
	_, err := r.Controller().ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{
		VolumeId: id, MutableParameters: map[string]string{discardKey: "false"},
	})
	testcheck.NoError(t, err)
	if got := options(id); strings.Contains(got, "discard") {
		t.Errorf("a volume that is set not to discard is mounted with %s", got)
	}
}

func TestDirectIO(t *testing.T) {
	r := newRig(t, Config{})
	if !r.pool.directIO {
		t.Skip("no direct I/O on the file system of the test's directory")
	}
	for value, want := range map[string]int64{"true": 1, "false": 0} {
		device := mustAttach(t, r.Driver, r.mustMake(value, with(directIOKey, value)))
		if got, err := readDevice(device, "loop/dio"); err != nil || got != want {
			t.Errorf("%s is %s: the kernel says %d (%v)", directIOKey, value, got, err)
		}
	}
}

// TestForeignFilesAreIgnored puts foreign files, and leftovers of a kill, into Dir.
func TestForeignFilesAreIgnored(t *testing.T) {
	r := newRig(t, Config{})
	whole := r.mustMake("whole", nil)
	foreign := []string{
		"notes.txt", "vol-0123456789abcdef.txt", "vol-0123456789abcdef", "vol-xyz.img", "group-0123456789abcdef.img",
	}
	for _, name := range foreign {
		testcheck.NoError(t, os.WriteFile(filepath.Join(r.cfg.Dir, name), []byte("foreign"), 0o600))
	}
	const strange = "vol-fedcba9876543210"
	testcheck.NoError(t, os.Mkdir(r.pool.image(strange), 0o700))
	for _, name := range []string{
		"vol-1111111111111111.img.draft", "snap-2222222222222222.json", "vol-3333333333333333.json.draft",
		whole + ".json.draft",
	} {
		testcheck.NoError(t, os.WriteFile(filepath.Join(r.cfg.Dir, name), []byte("{}"), 0o600))
	}
	testcheck.NoError(t, os.Symlink("rw one", filepath.Join(r.cfg.Dir, "vol-5555555555555555"+blockcsi.AttachmentSuffix)))
	testcheck.NoError(t, os.WriteFile(r.pool.image("vol-4444444444444444"), make([]byte, mebibyte), 0o600))
	device, err := loopdev.Bind(t.Context(), r.pool.image("vol-4444444444444444"),
		r.pool.mark("vol-4444444444444444", "one"), false)
	testcheck.NoError(t, err)
	testcheck.NoError(t, os.Remove(r.pool.image("vol-4444444444444444")))
	left, err := r.Orphans(t.Context())
	testcheck.NoError(t, err)
	for _, want := range []string{
		"vol-1111111111111111 is unfinished", "snap-2222222222222222 is unfinished",
		"vol-3333333333333333 is unfinished", "vol-5555555555555555 is unfinished", "losetup -d " + device, strange,
	} {
		if !slices.ContainsFunc(left, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("orphans %q, want %q among them", left, want)
		}
	}
	_, err = r.Recover(t.Context())
	testcheck.NoError(t, err)
	left, err = r.Orphans(t.Context())
	if err != nil || len(left) != 2 {
		t.Errorf("orphans after Recover: %q, %v; want the device and %s", left, err, strange)
	}
	// The reported command detaches the device.
	testcheck.NoError(t, exec.Command("losetup", "-d", device).Run())
	if left, err = r.Orphans(t.Context()); err != nil || len(left) != 1 || !strings.HasPrefix(left[0], strange) {
		t.Errorf("orphans after losetup -d: %q, %v; want %s", left, err, strange)
	}
	wantCode(t, r.deleteVolume(t, strange), codes.FailedPrecondition)
	_, err = attach(t, r.Driver, strange)
	wantCode(t, err, codes.Unavailable)
	testcheck.NoError(t, os.Remove(r.pool.image(strange)))
	testcheck.NoError(t, r.Close())
	entries, err := os.ReadDir(r.cfg.Dir)
	testcheck.NoError(t, err)
	var names []string
	for _, each := range entries {
		names = append(names, each.Name())
	}
	if slices.Sort(foreign); !slices.Equal(names, foreign) {
		t.Errorf("after Close: %q, want %q", names, foreign)
	}
}

func TestUnreadableRecordIsReported(t *testing.T) {
	r := newRig(t, Config{})
	id, other := r.mustMake("unreadable", nil), r.mustMake("other", nil)
	testcheck.NoError(t, os.WriteFile(filepath.Join(r.cfg.Dir, id+recordSuffix), []byte("not json"), 0o600))
	if all, err := r.pool.Volumes(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("volumes: %v, %v; want both", all, err)
	}
	_, err := attach(t, r.Driver, id)
	if wantCode(t, err, codes.Unavailable); !strings.Contains(fmt.Sprint(err), "write {} to the file") {
		t.Errorf("message is %v", err)
	}
	mustAttach(t, r.Driver, other)
	testcheck.NoError(t, os.WriteFile(filepath.Join(r.cfg.Dir, id+recordSuffix), []byte("{}"), 0o600))
	mustAttach(t, r.Driver, id)
}

// TestNothingStaysFrozen makes copying fail in every way.
func TestNothingStaysFrozen(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("source", nil)
	testcheck.NoError(t, r.stage(id, writer))
	testcheck.NoError(t, blockcsitest.WriteFile(r.staging(id)+"/file", make([]byte, 20*mebibyte)))
	files := func() int {
		entries, err := os.ReadDir(r.cfg.Dir)
		testcheck.NoError(t, err)
		return len(entries)
	}
	before := files()
	if r.pool.reflink {
		r.pool.reflink = false // so that copying has several steps
	}
	t.Run("the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r.pool.onStep = func(what string) {
			if what == "draft" {
				cancel()
			}
		}
		defer func() { r.pool.onStep = nil }()
		_, err := r.snapshot(ctx, "a", id)
		wantCode(t, err, codes.Canceled)
		wantThawed(t, r.staging(id))
	})
	t.Run("the pool panics", func(t *testing.T) {
		r.pool.onStep = func(what string) {
			if what == "copying" {
				panic("here")
			}
		}
		defer func() {
			r.pool.onStep = nil
			if recover() == nil {
				t.Error("it did not panic")
			}
			wantThawed(t, r.staging(id))
			_, err := r.Recover(t.Context())
			testcheck.NoError(t, err)
		}()
		_, _ = r.snapshot(t.Context(), "b", id)
	})
	t.Run("a second source cannot be frozen", func(t *testing.T) {
		raw := r.mustMake("raw", nil)
		_, err := r.node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
			VolumeId: raw, StagingTargetPath: r.staging(raw), VolumeCapability: blockWriter,
			PublishContext: map[string]string{blockcsi.DeviceKey: mustAttach(t, r.Driver, raw)},
		})
		testcheck.NoError(t, err)
		_, err = r.GroupController().CreateVolumeGroupSnapshot(t.Context(),
			&csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{id, raw}})
		wantCode(t, err, codes.FailedPrecondition)
		wantThawed(t, r.staging(id))
		testcheck.NoError(t, r.unstage(raw))
		testcheck.NoError(t, detach(t.Context(), r.Driver, raw))
		wantCode(t, r.deleteVolume(t, raw), codes.OK)
	})
	t.Run("frozen by another process", func(t *testing.T) {
		testcheck.NoError(t, exec.Command("fsfreeze", "-f", r.staging(id)).Run())
		_, err := r.snapshot(t.Context(), "c", id)
		wantCode(t, err, codes.FailedPrecondition)
		if err := exec.Command("fsfreeze", "-u", r.staging(id)).Run(); err != nil {
			t.Errorf("a foreign freeze was thawed: %v", err)
		}
	})
	t.Run("something is mounted over it", func(t *testing.T) {
		testcheck.NoError(t, exec.Command("mount", "-t", "tmpfs", "over", r.staging(id)).Run())
		_, err := r.snapshot(t.Context(), "d", id)
		wantCode(t, err, codes.FailedPrecondition)
		testcheck.NoError(t, exec.Command("umount", r.staging(id)).Run())
		wantThawed(t, r.staging(id))
	})
	if after := files(); after != before {
		t.Errorf("%d files, before %d", after, before)
	}
	_, err := r.snapshot(t.Context(), "at last", id)
	testcheck.NoError(t, err)
}

// TestHolesStayHoles copies a volume with little data.
func TestHolesStayHoles(t *testing.T) {
	r := newRig(t, Config{})
	r.pool.reflink = false
	id := r.mustMake("sparse", func(request *csi.CreateVolumeRequest) {
		request.CapacityRange = &csi.CapacityRange{RequiredBytes: 1 << 30}
	})
	image, err := os.OpenFile(r.pool.image(id), os.O_WRONLY, 0)
	testcheck.NoError(t, err)
	places := []int64{0, 100 << 20, 1<<30 - 4096}
	for _, at := range places {
		_, err := image.WriteAt([]byte(strings.Repeat("y", 4096)), at)
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, image.Close())
	snapshot, err := r.snapshot(t.Context(), "s", id)
	testcheck.NoError(t, err)
	if got := r.blocks(snapshot); got < 3*4096 || got > mebibyte {
		t.Errorf("the copy of three blocks occupies %d bytes", got)
	}
	copied, err := os.Open(r.pool.image(snapshot))
	testcheck.NoError(t, err)
	defer copied.Close()
	for _, at := range places {
		block := make([]byte, 4096)
		if _, err := copied.ReadAt(block, at); err != nil || string(block) != strings.Repeat("y", 4096) {
			t.Errorf("at %d the copy differs (%v)", at, err)
		}
	}
	info, err := os.Stat(r.pool.image(snapshot))
	if testcheck.NoError(t, err); info.Size() != 1<<30 {
		t.Errorf("the copy has %d bytes", info.Size())
	}
}
