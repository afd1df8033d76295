//go:build linux

package loop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/nodefs"
)

// newDriver returns a driver over dir with node "one", closed after the test.
func newDriver(t *testing.T, dir string) (*Driver, csi.NodeServer, string) {
	t.Helper()
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	d, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "node")
	fs, err := nodefs.NewReal(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(fs.UnmountAll(), d.Close()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return d, d.Node("one", fs), root
}

var writer = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}

func create(t *testing.T, d *Driver, name string) string {
	t.Helper()
	response, err := d.Controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer},
	})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetVolume().GetVolumeId()
}

func attach(t *testing.T, d *Driver, id string) (string, error) {
	response, err := d.Controller().ControllerPublishVolume(t.Context(),
		&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "one", VolumeCapability: writer})
	return response.GetPublishContext()[blockcsi.DeviceKey], err
}

func mustAttach(t *testing.T, d *Driver, id string) string {
	t.Helper()
	device, err := attach(t, d, id)
	if err != nil {
		t.Fatal(err)
	}
	return device
}

func detach(ctx context.Context, d *Driver, id string) error {
	_, err := d.Controller().ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
	return err
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

// untilCleared is a context whose deadline passes when a device is being unbound, which an open file
// delays.
type untilCleared struct {
	context.Context
	device string
}

var passed = func() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

func (c untilCleared) Done() <-chan struct{} {
	if c.Err() != nil {
		return passed
	}
	return c.Context.Done()
}

func (c untilCleared) Err() error {
	if bound, err := loopdev.Status(c.device); err != nil || bound.Autoclear {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

func TestDetachWaitsForOpenDevice(t *testing.T) {
	d, _, _ := newDriver(t, t.TempDir())
	id := create(t, d, "held")
	device := mustAttach(t, d, id)
	holder, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, detach(untilCleared{t.Context(), device}, d, id), codes.DeadlineExceeded)
	_, err = attach(t, d, id)
	wantCode(t, err, codes.Aborted) // it is being detached
	wantCode(t, d.deleteVolume(t, id), codes.Aborted)
	holder.Close()
	wantCode(t, detach(t.Context(), d, id), codes.OK)
	mustAttach(t, d, id)
}

func (d *Driver) deleteVolume(t *testing.T, id string) error {
	_, err := d.Controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func TestForeignDeviceIsUnchanged(t *testing.T) {
	d, _, _ := newDriver(t, t.TempDir())
	id := create(t, d, "foreign")
	device, err := loopdev.Bind(t.Context(), d.pool.image(id), "not ours", false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = attach(t, d, id)
	wantCode(t, err, codes.FailedPrecondition)
	wantCode(t, detach(t.Context(), d, id), codes.FailedPrecondition)
	wantCode(t, d.deleteVolume(t, id), codes.FailedPrecondition)
	other, _, _ := newDriver(t, t.TempDir())
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if bound, err := loopdev.List(d.pool.isImage); err != nil || len(bound) != 1 || bound[0].Device != device {
		t.Errorf("bound afterwards: %+v, %v; want %s", bound, err, device)
	}
}

func TestDetachKeepsReboundDevice(t *testing.T) {
	d, _, _ := newDriver(t, t.TempDir())
	id := create(t, d, "rebound")
	mustAttach(t, d, id)
	bound, err := loopdev.List(d.pool.isImage)
	if err != nil || len(bound) != 1 {
		t.Fatalf("bound: %+v, %v", bound, err)
	}
	seen := bound[0]
	seen.Mark = "volsim:earlier"
	if err := loopdev.Unbind(t.Context(), seen); err != nil {
		t.Error(err)
	}
	if bound, err = loopdev.List(d.pool.isImage); err != nil || len(bound) != 1 {
		t.Errorf("bindings afterwards: %+v, %v; want one", bound, err)
	}
}

func TestExclusiveUserPreventsDetach(t *testing.T) {
	d, _, _ := newDriver(t, t.TempDir())
	id := create(t, d, "exclusive")
	user, err := os.OpenFile(mustAttach(t, d, id), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, detach(t.Context(), d, id), codes.FailedPrecondition)
	user.Close()
	mustAttach(t, d, id) // no command was started
}

func TestRemovedFileIsDistinguishedFromNewOne(t *testing.T) {
	d, _, _ := newDriver(t, t.TempDir())
	id := create(t, d, "removed")
	mustAttach(t, d, id)
	if err := os.Remove(d.pool.image(id)); err != nil {
		t.Fatal(err)
	}
	_, err := attach(t, d, id)
	wantCode(t, err, codes.NotFound)
	create(t, d, "removed")
	_, err = attach(t, d, id)
	wantCode(t, err, codes.FailedPrecondition)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if bound, err := loopdev.List(d.pool.isImage); err != nil || len(bound) != 0 {
		t.Errorf("bound after Close: %+v, %v", bound, err)
	}
}

func TestTwoDriversRaceForDevices(t *testing.T) {
	const count = 24
	results := make(chan error)
	for range 2 {
		d, _, _ := newDriver(t, t.TempDir())
		for i := range count {
			id := create(t, d, strings.Repeat("x", i+1))
			go func() {
				_, err := attach(t, d, id)
				results <- errors.Join(err, detach(t.Context(), d, id))
			}()
		}
	}
	for range 2 * count {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestFullBackingStoreIsResourceExhausted(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	store := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "volsim-test",
		store).CombinedOutput(); err != nil {
		t.Skipf("no small tmpfs to be had: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", store).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	d, node, root := newDriver(t, store)
	id := create(t, d, "does not fit")
	_, err := node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: root + "/stage", VolumeCapability: writer,
		PublishContext: map[string]string{blockcsi.DeviceKey: mustAttach(t, d, id)},
	})
	wantCode(t, err, codes.ResourceExhausted)
	if message := status.Convert(err).Message(); strings.Contains(message, "\n") ||
		!strings.Contains(message, "free some") {
		t.Errorf("message %q", message)
	}
}

func TestNoFreeLoopIsResourceExhausted(t *testing.T) {
	d := &pool{dir: "/images"}
	err := d.status(errors.Join(loopdev.ErrNone, unix.ENOSPC))
	wantCode(t, err, codes.ResourceExhausted)
	if !strings.Contains(err.Error(), "losetup") {
		t.Errorf("the message has no advice: %v", err)
	}
	wantCode(t, d.status(unix.ENOSPC), codes.ResourceExhausted)
}

func TestMarksFitTheirField(t *testing.T) {
	d := &pool{runID: strings.Repeat("r", runIDLengthMax)}
	id := "vol-0123456789abcdef"
	mark := d.mark(id, strings.Repeat("n", 300))
	if len(mark) > 63 {
		t.Errorf("mark of %d bytes: %s", len(mark), mark)
	}
	key, ours := d.nodeKey(mark, id)
	if want := digest(strings.Repeat("n", 300), nodeKeyDigits); !ours || key != want {
		t.Errorf("nodeKey = %q, %v; want %q", key, ours, want)
	}
	for _, other := range []string{"", "volsim:x:0123456789abcdef:000000000000", "not ours"} {
		if key, ours := d.nodeKey(other, id); ours {
			t.Errorf("nodeKey(%q) = %q", other, key)
		}
	}
}

func TestProbeReportsWhatIsMissing(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	t.Run("tools", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if err := Probe(); err == nil || !strings.Contains(err.Error(), "install e2fsprogs") {
			t.Errorf("Probe without tools: %v", err)
		}
	})
	t.Run("capability", func(t *testing.T) {
		if err := withoutAdmin(Probe); err == nil || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
			t.Errorf("Probe without CAP_SYS_ADMIN: %v", err)
		}
	})
	t.Run("root", func(t *testing.T) {
		if err := unprivileged(Probe); err == nil || !strings.Contains(err.Error(), "need root") {
			t.Errorf("Probe as an ordinary user: %v", err)
		}
	})
}

// withoutAdmin runs a function on a thread without CAP_SYS_ADMIN.
func withoutAdmin(run func() error) error {
	return onLostThread(run, func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		if err := unix.Capget(&header, &sets[0]); err != nil {
			return err
		}
		sets[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
		return unix.Capset(&header, &sets[0])
	})
}

// unprivileged runs a function on a thread with an effective user other than root.
func unprivileged(run func() error) error {
	return onLostThread(run, func() error {
		keep := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, 65534, keep); errno != 0 {
			return errno
		}
		return nil
	})
}

// onLostThread runs a function on a thread that is modified first. The thread is locked and ends
// with its goroutine.
func onLostThread(run, change func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := change(); err != nil {
			result <- err
			return
		}
		result <- run()
	}()
	return <-result
}
