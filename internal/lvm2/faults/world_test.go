//go:build linux

// Package faults_test injects faults into disks below volume groups, and power failures. It
// needs device-mapper: run it in a guest, as 'make test-dm' does. The tests of power failures start
// their guests themselves.
package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/dm"
	"github.com/volsim/volsim/internal/guest"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

const (
	mib      = int64(1) << 20
	systemID = "volsim-faults"
)

func TestMain(m *testing.M) {
	guest.Main()
	os.Exit(m.Run())
}

// world is a volume group on disks with injected faults.
type world struct {
	*testing.T
	disks []*dm.Disk
	group *lvm2.VolumeGroup
}

// newWorld skips the test without device-mapper. It checks that nothing remains.
func newWorld(t *testing.T, disks int) *world {
	t.Helper()
	if err := dm.Probe(); err != nil {
		t.Skip(err)
	}
	w := &world{T: t}
	directory := t.TempDir()
	system, err := lvm2.Open(lvm2.Config{
		Directory: filepath.Join(directory, "lvm"), SystemID: systemID, Mode: lvm2.DeviceMapper,
	})
	testcheck.NoError(w, err)
	t.Cleanup(func() { testcheck.NoError(w, system.Close()) })
	spec := lvm2.GroupSpec{Name: fmt.Sprintf("volsim-faults-%d", os.Getpid())}
	for i := range disks {
		added, err := system.AddDevice(t.Context(),
			w.newDisk(filepath.Join(directory, fmt.Sprintf("disk%d", i))).Device())
		testcheck.NoError(w, err)
		spec.Disks = append(spec.Disks, added.Name)
	}
	w.group, err = system.CreateVolumeGroup(t.Context(), spec)
	testcheck.NoError(w, err)
	t.Cleanup(w.removeGroup)
	return w
}

// newDisk returns a disk of 128 MiB that is removed after the test.
func (w *world) newDisk(file string) *dm.Disk {
	w.Helper()
	testcheck.NoError(w, os.WriteFile(file, nil, 0o600))
	testcheck.NoError(w, os.Truncate(file, 128*mib))
	loop, err := loopdev.Bind(w.Context(), file, "faults", false)
	testcheck.NoError(w, err)
	w.Cleanup(func() {
		bound, err := loopdev.List(func(backing string) bool { return backing == file })
		testcheck.NoError(w, err)
		for _, b := range bound {
			testcheck.NoError(w, loopdev.Unbind(context.Background(), b))
		}
	})
	disk, err := dm.NewDisk(w.Context(), fmt.Sprintf("volsim-faults-disk%d-%d", len(w.disks), os.Getpid()), loop)
	testcheck.NoError(w, err)
	w.Cleanup(func() { testcheck.NoError(w, disk.Remove(context.Background())) })
	w.disks = append(w.disks, disk)
	return disk
}

// removeGroup removes everything that a test created, whatever the state of the disks.
func (w *world) removeGroup() {
	w.Helper()
	ctx := context.Background()
	for _, disk := range w.disks {
		testcheck.NoError(w, disk.SetBehaviour(ctx, dm.Healthy()))
	}
	volumes, err := w.group.List(ctx)
	testcheck.NoError(w, err)
	var names []string
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	testcheck.NoError(w, w.group.Remove(ctx, names...))
	testcheck.NoError(w, w.group.RemoveGroup(ctx))
}

func (w *world) become(disk int, b dm.Behaviour) {
	w.Helper()
	testcheck.NoError(w, w.disks[disk].SetBehaviour(w.Context(), b))
}

// volume creates a volume of 32 MiB with a file system, and mounts it until the test ends.
func (w *world) volume(spec lvm2.Spec) (folder string) {
	w.Helper()
	spec.Size = 32 * mib
	_, err := w.group.Create(w.Context(), spec)
	testcheck.NoError(w, err)
	device, err := w.group.Activate(w.Context(), spec.Name)
	testcheck.NoError(w, err)
	testcheck.NoError(w, format(device))
	folder = w.TempDir()
	w.mount(device, folder)
	w.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil && !errors.Is(err, unix.EINVAL) { // that is: not mounted
			w.Error(err)
		}
	})
	return folder
}

func (w *world) mount(device, folder string) {
	w.Helper()
	testcheck.NoError(w, unix.Mount(device, folder, "ext4", 0, ""))
}

func format(device string) error {
	output, err := exec.Command("mkfs.ext4", "-q", device).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mkfs.ext4 %s: %w: %s", device, err, output)
	}
	return err
}

// write writes a file and syncs it.
func write(file, text string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (w *world) wantFile(file, want string) {
	w.Helper()
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		w.Errorf("%s: got %q and %v, want %q", file, got, err, want)
	}
}

// forget drops the kernel's caches, so that the next read is from disk.
func (w *world) forget() {
	w.Helper()
	testcheck.NoError(w, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
}

func words(list []lvm2.LogicalVolume) string {
	var names []string
	for _, v := range list {
		names = append(names, v.Name)
	}
	return strings.Join(names, " ")
}
