package volumegroup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A node has disks, and volume groups on them.
type node struct {
	volumegroup.Backend
	disk     nodefs.FS
	root     string
	addDisk  func(name string)              // of 64 MiB
	format   func(name, fsType string)      // makes it a disk with a file system
	contents func(name string) (sum []byte) // nil in memory
	device   func(name string) string       // on this machine; not in memory
	bind     func(device, name string) error
}

// eachBackend runs a test in memory, and with LVM on loop devices of its own.
func eachBackend(t *testing.T, test func(t *testing.T, n node)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		disk := nodefs.NewMemory("/node")
		n := node{Backend: volumegroup.NewMemory(disk, "/node"), disk: disk, root: "/node"}
		n.addDisk = func(name string) {
			testcheck.NoError(t, disk.MkdirAll("/node/dev"), disk.WriteFile("/node"+name, nil))
			disk.SetDeviceSize("disk "+name, 64<<20)
			testcheck.NoError(t, disk.MountDevice("disk "+name, "/node"+name, false))
		}
		n.format = func(name, fsType string) {
			testcheck.NoError(t, disk.MkdirAll("/node/mnt"), disk.FormatAndMount(t.Context(), "/node"+name, "/node/mnt", fsType, nil), disk.Unmount("/node/mnt"))
		}
		n.contents = func(string) []byte { return nil }
		test(t, n)
	})
	t.Run("lvm", func(t *testing.T) {
		if err := lvm.Probe(); err != nil {
			t.Skip(err)
		}
		test(t, newLVM(t))
	})
}

// newLVM returns a node whose disks are loop devices over files of the test.
func newLVM(t *testing.T) node {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "node")
	disk, err := nodefs.NewReal(root)
	testcheck.NoError(t, err)
	groups, err := volumegroup.OpenLVM(volumegroup.LVMConfig{
		LVM:    lvm2.Config{Directory: filepath.Join(dir, "lvm"), SystemID: "volsim-test-" + filepath.Base(dir)},
		Prefix: fmt.Sprintf("volsim-test-%d-", os.Getpid()), Disk: disk, Root: root,
	})
	testcheck.NoError(t, err)
	var loops []loopdev.Binding
	machine := map[string]string{}
	t.Cleanup(func() {
		ctx := context.Background()
		err := errors.Join(disk.UnmountAll(), groups.Close(ctx))
		for _, loop := range loops {
			err = errors.Join(err, loopdev.Unbind(ctx, loop))
		}
		testcheck.NoError(t, err)
	})
	n := node{Backend: groups, disk: disk, root: root}
	n.device = func(name string) string { return machine[name] }
	n.bind = func(device, name string) error { return disk.BindDevice(device, filepath.Join(root, name), false) }
	n.addDisk = func(name string) {
		image := filepath.Join(dir, filepath.Base(name)+".img")
		file, err := os.Create(image)
		testcheck.NoError(t, err, file.Truncate(64<<20), file.Close())
		device, err := loopdev.Bind(t.Context(), image, "volsim:test", false)
		testcheck.NoError(t, err)
		loop, err := loopdev.At(device)
		testcheck.NoError(t, err)
		loops, machine[name] = append(loops, loop), device
		at := filepath.Join(root, name)
		testcheck.NoError(t, disk.MkdirAll(filepath.Dir(at)), disk.WriteFile(at, nil), disk.BindDevice(device, at, false))
	}
	n.format = func(name, fsType string) {
		out, err := exec.Command("mkfs."+fsType, "-q", filepath.Join(root, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("mkfs: %v\n%s", err, out)
		}
	}
	n.contents = func(name string) []byte {
		out, err := exec.Command("sha256sum", machine[name]).Output()
		testcheck.NoError(t, err)
		return out
	}
	return n
}

// describe returns a report as text.
func describe(r volumegroup.Report) string {
	text := fmt.Sprintf("%d of %d MiB free", r.Free>>20, r.Size>>20)
	for _, d := range r.Disks {
		text += fmt.Sprintf("; %s %s", d.Path, d.State)
	}
	for _, v := range r.Volumes {
		text += fmt.Sprintf("; %s %d MiB", v.Name, v.Size>>20)
		if v.Unfinished {
			text += " unfinished"
		}
	}
	return text
}

func TestVolumeGroups(t *testing.T) {
	eachBackend(t, func(t *testing.T, n node) {
		ctx := t.Context()
		n.addDisk("/dev/sdb")
		n.addDisk("/dev/sdc")
		n.addDisk("/dev/sdd")
		n.format("/dev/sdd", "ext4")
		testcheck.NoError(t, n.disk.WriteFile(n.root+"/dev/file", nil))
		before := n.contents("/dev/sdd")
		all := []string{"/dev/sdb", "/dev/sdd", "/dev/sde", "/dev/file"}
		ensure := func(disks []string, want string) volumegroup.Report {
			t.Helper()
			r, err := n.Ensure(ctx, "fast", disks)
			testcheck.NoError(t, err)
			if diff := cmp.Diff(want, describe(r)); diff != "" {
				t.Fatalf("report (-want +got):\n%s", diff)
			}
			return r
		}
		ensure(all[1:], "0 of 0 MiB free; /dev/sdd Refused; /dev/sde Missing; /dev/file Refused")
		rest := "; /dev/sdd Refused; /dev/sde Missing; /dev/file Refused"
		if r := ensure(all, "60 of 60 MiB free; /dev/sdb InUse"+rest); !r.Changed || r.Largest != 60<<20 {
			t.Errorf("report %+v", r)
		}
		if r := ensure(all, "60 of 60 MiB free; /dev/sdb InUse"+rest); r.Changed {
			t.Error("changed again")
		}
		other, err := n.Ensure(ctx, "other", []string{"/dev/sdb"})
		if err != nil || len(other.Disks) != 1 || other.Disks[0].State != volumegroup.Refused {
			t.Errorf("a disk of two groups: %+v, %v", other, err)
		}

		spec := volumegroup.Spec{Name: "pvc-1", Size: 10 << 20, Owner: "default/web"}
		for range 2 { // again after a crash
			v, err := n.Create(ctx, "fast", spec)
			if err != nil || v.Path != "/dev/fast/pvc-1" || v.Size != 12<<20 || v.Owner != spec.Owner || !v.Unfinished {
				t.Fatalf("created %+v, %v", v, err)
			}
		}
		if info, err := n.disk.Stat(n.root + "/dev/fast/pvc-1"); err != nil || info.Device == "" {
			t.Errorf("device %+v, %v", info, err)
		}
		ensure(all, "48 of 60 MiB free; /dev/sdb InUse"+rest+"; pvc-1 12 MiB unfinished")
		testcheck.NoError(t, n.Finish(ctx, "fast", "pvc-1"), n.Finish(ctx, "fast", "pvc-1"))
		if _, err := n.Create(ctx, "fast", volumegroup.Spec{Name: "pvc-2", Size: 100 << 20, Owner: "default/db"}); !errors.Is(err, volumegroup.ErrNoSpace) {
			t.Errorf("no space: %v", err)
		}
		if _, err := n.Create(ctx, "none", spec); !errors.Is(err, volumegroup.ErrNoGroup) {
			t.Errorf("no group: %v", err)
		}
		v, err := n.Extend(ctx, "fast", "pvc-1", 20<<20)
		if err != nil || v.Size != 20<<20 {
			t.Errorf("extended %+v, %v", v, err)
		}
		if _, err := n.Extend(ctx, "fast", "pvc-1", 200<<20); !errors.Is(err, volumegroup.ErrNoSpace) {
			t.Errorf("no space: %v", err)
		}
		all = append(all, "/dev/sdc") // a disk that is added later
		ensure(all, "100 of 120 MiB free; /dev/sdb InUse"+rest+"; /dev/sdc InUse; pvc-1 20 MiB")
		if err := n.Destroy(ctx, "fast"); !errors.Is(err, volumegroup.ErrInUse) {
			t.Errorf("destroyed with a volume: %v", err)
		}

		// A volume in use stays. Its content does not survive it.
		testcheck.NoError(t, n.disk.MkdirAll(n.root+"/mnt"), n.disk.FormatAndMount(ctx, n.root+"/dev/fast/pvc-1", n.root+"/mnt", "ext4", nil),
			n.disk.WriteFile(n.root+"/mnt/file", []byte("mine")))
		if err := n.Remove(ctx, "fast", "pvc-1"); !errors.Is(err, volumegroup.ErrInUse) {
			t.Errorf("removed a volume in use: %v", err)
		}
		testcheck.NoError(t, n.disk.Unmount(n.root+"/mnt"), n.Remove(ctx, "fast", "pvc-1"), n.Remove(ctx, "fast", "pvc-1"))
		if _, err := n.disk.Stat(n.root + "/dev/fast/pvc-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("device of a removed volume: %v", err)
		}
		if _, err := n.Create(ctx, "fast", spec); err != nil {
			t.Fatal(err)
		}
		testcheck.NoError(t, n.disk.FormatAndMount(ctx, n.root+"/dev/fast/pvc-1", n.root+"/mnt", "ext4", nil))
		if names, err := n.disk.ReadDir(n.root + "/mnt"); err != nil || strings.Contains(fmt.Sprint(names), "file") {
			t.Errorf("content of a new volume: %v, %v", names, err)
		}
		testcheck.NoError(t, n.disk.Unmount(n.root+"/mnt"), n.Activate(ctx), n.Remove(ctx, "fast", "pvc-1"), n.Destroy(ctx, "fast"), n.Destroy(ctx, "fast"))
		if diff := cmp.Diff(before, n.contents("/dev/sdd")); diff != "" {
			t.Errorf("the refused disk has changed")
		}
	})
}
