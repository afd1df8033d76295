//go:build linux

package lvm2_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

const (
	mib      = int64(1) << 20
	diskSize = 256 * mib
	systemID = "volsim-test"
	owned    = "volsim.owner=test"
)

// requireDevices skips the test without real devices.
func requireDevices(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices and lvm")
	}
	if _, err := os.Stat(loopdev.ControlNode); err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	if _, err := exec.LookPath("lvm"); err != nil {
		t.Skipf("needs lvm2: %v", err)
	}
}

// modes returns the modes that this machine supports. A guest of User-Mode Linux exists for
// device-mapper, and only tests that mode.
func modes() []lvm2.Mode {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return []lvm2.Mode{lvm2.Partitions}
	}
	control.Close()
	if inGuest() {
		return []lvm2.Mode{lvm2.DeviceMapper}
	}
	return []lvm2.Mode{lvm2.Partitions, lvm2.DeviceMapper}
}

func inGuest() bool {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && strings.Contains(string(cpu), "User Mode Linux")
}

// often returns the number of attempts for races; a guest is slow.
func often(times int) int {
	if inGuest() {
		return times / 4
	}
	return times
}

// metadataOnly marks a test that does not depend on device-mapper. A slow guest skips it in short
// mode; it passes without device-mapper.
func metadataOnly(t *testing.T) {
	t.Helper()
	if testing.Short() && inGuest() {
		t.Skip("short: device-mapper has no part in it, and a guest is slow")
	}
}

// eachMode runs a test in every mode of this machine.
func eachMode(t *testing.T, test func(t *testing.T, w *world)) {
	requireDevices(t)
	for _, mode := range modes() {
		t.Run(string(mode), func(t *testing.T) { test(t, newWorld(t, mode)) })
	}
}

// world is a System with a volume group on two disks of 256 MiB.
type world struct {
	*lvm2.System
	group     *lvm2.VolumeGroup
	directory string
	mode      lvm2.Mode
	ctx       context.Context
}

// groupName returns a unique name: device-mapper's device names share one namespace.
func groupName(directory string) string {
	return "t" + strings.ReplaceAll(filepath.Base(filepath.Dir(directory))+filepath.Base(directory), ".", "")
}

func newWorld(t testing.TB, mode lvm2.Mode) *world {
	t.Helper()
	return newWorldIn(t, mode, t.TempDir())
}

func newWorldIn(t testing.TB, mode lvm2.Mode, directory string) *world {
	t.Helper()
	w := &world{directory: directory, mode: mode, ctx: t.Context()}
	t.Cleanup(func() { w.nothingIsLeft(t) })
	w.reopen(t)
	w.addDisks(t)
	var err error
	w.group, err = w.CreateVolumeGroup(w.ctx, lvm2.GroupSpec{
		Name: groupName(w.directory), Disks: []string{"pv0", "pv1"}, Tags: []string{owned},
	})
	testcheck.NoError(t, err)
	return w
}

func (w *world) reopen(t testing.TB) {
	t.Helper()
	system, err := lvm2.Open(lvm2.Config{
		Directory: filepath.Join(w.directory, "lvm"), SystemID: systemID, Mode: w.mode,
	})
	testcheck.NoError(t, err)
	w.System = system
}

func (w *world) addDisks(t testing.TB) {
	t.Helper()
	for _, name := range []string{"a", "b"} {
		_, err := w.AddFile(w.ctx, filepath.Join(w.directory, name+".img"), diskSize)
		testcheck.NoError(t, err)
	}
}

// restart simulates a new process.
func (w *world) restart(t testing.TB) {
	t.Helper()
	testcheck.NoError(t, w.Close())
	w.reopen(t)
	w.addDisks(t)
	var err error
	w.group, err = w.VolumeGroup(w.ctx, w.group.Name())
	testcheck.NoError(t, err)
}

// nothingIsLeft removes everything and checks that nothing remains.
func (w *world) nothingIsLeft(t testing.TB) {
	t.Helper()
	w.ctx = context.WithoutCancel(w.ctx)
	if w.group != nil {
		report, err := w.group.Report(w.ctx)
		if errors.Is(err, lvm2.ErrNoGroup) {
			w.group = nil
		} else {
			testcheck.NoError(t, err)
			var names []string
			for _, volume := range report.LogicalVolumes {
				names = append(names, volume.Name)
			}
			testcheck.NoError(t, w.group.Remove(w.ctx, names...))
			testcheck.NoError(t, w.group.RemoveGroup(w.ctx))
		}
	}
	testcheck.NoError(t, w.Detach(w.ctx))
	testcheck.NoError(t, w.Close())
	left, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, w.directory) })
	testcheck.NoError(t, err)
	if len(left) > 0 {
		t.Errorf("remaining loop devices: %+v", left)
	}
}

func (w *world) create(t testing.TB, spec lvm2.Spec) lvm2.LogicalVolume {
	t.Helper()
	volume, err := w.group.Create(w.ctx, spec)
	testcheck.NoError(t, err)
	return volume
}

func (w *world) activate(t testing.TB, name string) string {
	t.Helper()
	device, err := w.group.Activate(w.ctx, name)
	testcheck.NoError(t, err)
	return device
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

// mount formats a device if requested, and mounts it until the test ends.
func mount(t testing.TB, device, fsType string, format bool) (target string, unmount func()) {
	t.Helper()
	if format {
		command := []string{"mkfs." + fsType, "-q", device}
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, output)
		}
	}
	target = t.TempDir()
	testcheck.NoError(t, unix.Mount(device, target, fsType, 0, ""))
	mounted := true
	unmount = func() {
		if mounted {
			testcheck.NoError(t, unix.Unmount(target, 0))
			mounted = false
		}
	}
	t.Cleanup(unmount)
	return target, unmount
}

func namesOf(volumes []lvm2.LogicalVolume) []string {
	var names []string
	for _, each := range volumes {
		names = append(names, each.Name)
	}
	slices.Sort(names)
	return names
}
