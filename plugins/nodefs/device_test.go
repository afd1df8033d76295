package nodefs_test

import (
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

func filesAreBound(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "dir")[0]
	source, target := root+"/source", root+"/target"
	testcheck.NoError(t, node.WriteFile(source, []byte("seen twice")))
	testcheck.NoError(t, node.WriteFile(target, []byte("hidden")))
	wantError(t, node.BindMount(source, dir, false), syscall.ENOTDIR)
	wantError(t, node.BindMount(dir, target, false), syscall.ENOTDIR)
	if node.BindMount(source, root, false) == nil {
		t.Error("a file was bound onto the root")
	}
	wantError(t, node.BindMount(source, root+"/missing", false), fs.ErrNotExist)

	testcheck.NoError(t, node.BindMount(source, target, true))
	wantMounted(t, node, target, true)
	wantContent(t, node, target, "seen twice")
	wantError(t, node.Remove(target), nodefs.ErrMounted)
	wantError(t, node.RemoveAll(target), nodefs.ErrMounted)
	wantError(t, node.WriteFile(target, nil), nodefs.ErrMounted)
	wantError(t, node.Overwrite(target, nil), nodefs.ErrReadOnly)
	wantError(t, node.Overwrite(dir, nil), syscall.EINVAL)
	wantError(t, node.Overwrite(root+"/missing", nil), fs.ErrNotExist)
	testcheck.NoError(t, node.Overwrite(source, []byte("in place")))
	wantContent(t, node, target, "in place")
	testcheck.NoError(t, node.Overwrite(source, []byte("seen twice")))
	wantError(t, node.Chmod(target, 0o600), nodefs.ErrReadOnly)
	testcheck.NoError(t, node.WriteFile(source, []byte("a new file"))) // not the bound file
	wantContent(t, node, target, "seen twice")
	testcheck.NoError(t, node.Unmount(target))
	wantContent(t, node, target, "hidden")
	testcheck.NoError(t, node.Remove(target))
}

func locksHold(t *testing.T, node nodefs.FS, root string) {
	source, target := root+"/source", root+"/target"
	for _, name := range []string{source, target} {
		testcheck.NoError(t, node.WriteFile(name, make([]byte, 4096)))
	}
	testcheck.NoError(t, node.BindMount(source, target, false))
	_, err := node.DeviceLock(target)
	wantError(t, err, fs.ErrNotExist)
	lock, err := node.LockDevice(target)
	testcheck.NoError(t, err)
	again, err := node.LockDevice(target)
	testcheck.NoError(t, err)
	found, err := node.DeviceLock(target)
	testcheck.NoError(t, err)
	if lock == "" || again != lock || found != lock {
		t.Errorf("locked by %q, then %q, found %q", lock, again, found)
	}
	other, err := node.LockDevice(source) // the same file, elsewhere
	testcheck.NoError(t, err)
	if other == lock {
		t.Errorf("two files have the same lock %q", lock)
	}
	wantError(t, node.Unmount(target), nodefs.ErrBusy)
	testcheck.NoError(t, node.UnlockDevice(source))
	wantError(t, node.Unmount(target), nodefs.ErrBusy)
	testcheck.NoError(t, node.UnlockDevice(target))
	_, err = node.DeviceLock(target)
	wantError(t, err, fs.ErrNotExist)
	testcheck.NoError(t, node.Unmount(target))
}

func noLock(t *testing.T, node nodefs.FS, root string) {
	testcheck.NoError(t, node.WriteFile(root+"/file", nil))
	testcheck.NoError(t, node.UnlockDevice(root+"/file"))
	testcheck.NoError(t, node.UnlockDevice(root+"/missing"))
	testcheck.NoError(t, node.UnlockDevice(root+"/file/below"))
	_, err := node.DeviceLock(root + "/missing")
	wantError(t, err, fs.ErrNotExist)
	_, err = node.LockDevice(root)
	wantError(t, err, syscall.EISDIR)
}

// devices returns nodes with a function that makes the first or the second of two devices visible
// at a file.
func devices(t *testing.T) map[string]struct {
	node nodefs.FS
	root string
	bind func(t *testing.T, second bool, target string) error
} {
	real, root := newReal(t)
	memory := nodefs.NewMemory("/n")
	return map[string]struct {
		node nodefs.FS
		root string
		bind func(t *testing.T, second bool, target string) error
	}{
		"real": {real, root, func(_ *testing.T, second bool, target string) error {
			return real.BindDevice(map[bool]string{false: "/dev/null", true: "/dev/zero"}[second], target, false)
		}},
		"memory": {memory, "/n", func(_ *testing.T, second bool, target string) error {
			return memory.MountDevice(map[bool]string{false: "one", true: "two"}[second], target, false)
		}},
	}
}

func TestDeviceNodesIdentifyTheirDevice(t *testing.T) {
	for name, each := range devices(t) {
		t.Run(name, func(t *testing.T) {
			node := each.node
			var files []string
			for _, name := range []string{"a", "b", "c", "d"} {
				files = append(files, filepath.Join(each.root, name))
				testcheck.NoError(t, node.WriteFile(filepath.Join(each.root, name), nil))
			}
			testcheck.NoError(t, each.bind(t, false, files[0]))
			testcheck.NoError(t, each.bind(t, true, files[1]))
			testcheck.NoError(t, node.BindMount(files[0], files[2], false))
			testcheck.NoError(t, node.BindMount(files[2], files[3], true))
			wantError(t, each.bind(t, false, each.root+"/missing"), fs.ErrNotExist)

			var reported []string
			for _, file := range files {
				info, err := node.Stat(file)
				testcheck.NoError(t, err)
				if info.Mode&fs.ModeDevice == 0 {
					t.Errorf("%s has mode %v, want a device", file, info.Mode)
				}
				reported = append(reported, info.Device)
				wantMounted(t, node, file, true)
			}
			if reported[0] == "" || reported[1] == reported[0] || reported[2] != reported[0] ||
				reported[3] != reported[0] {
				t.Errorf("nodes of the devices 0, 1, 0, 0 report %q", reported)
			}
			testcheck.NoError(t, node.Unmount(files[0]))
			wantInfo(t, node, files[0], nodefs.Info{Mode: 0o640})
		})
	}
}

// TestBytesOfDevices are those of the tree that has them, for each node and for its clones.
func TestBytesOfDevices(t *testing.T) {
	one, two := nodefs.NewMemory("/n"), nodefs.NewMemory("/n")
	disk := nodefs.NewTree()
	for _, node := range []*nodefs.Memory{one, two} {
		testcheck.NoError(t, node.WriteFile("/n/device", nil), node.MountDevice("disk", "/n/device", false))
		node.SetDeviceBytes("disk", disk, 10000)
	}
	testcheck.Equal(t, "hash of an empty device", nodefs.NewTree().Hash(), disk.Hash())
	testcheck.Equal(t, "written", 6, testcheck.Must(one.WriteDevice("/n/device", []byte("across"), 4093)))
	clone := disk.Clone()[0]
	testcheck.Equal(t, "hash of the clone", disk.Hash(), clone.Hash())
	testcheck.Equal(t, "written", 3, testcheck.Must(two.WriteDevice("/n/device", []byte("two"), 0)))
	if disk.Hash() == clone.Hash() {
		t.Error("the clone has changed with its source")
	}
	part := make([]byte, 8)
	testcheck.Equal(t, "read", 8, testcheck.Must(two.ReadDevice("/n/device", part, 4092)))
	testcheck.Equal(t, "bytes", "\x00across\x00", string(part))
	testcheck.Equal(t, "read at the end", 1, testcheck.Must(one.ReadDevice("/n/device", part, 9999)))
	_, err := one.ReadDevice("/n/device", part, 10000)
	wantError(t, err, io.EOF)
	n, err := one.WriteDevice("/n/device", []byte("full"), 9998)
	testcheck.Equal(t, "written at the end", 2, n)
	wantError(t, err, syscall.ENOSPC)
	testcheck.NoError(t, one.WriteFile("/n/file", nil))
	_, err = one.ReadDevice("/n/file", part, 0)
	wantError(t, err, syscall.ENOTBLK)
}

func TestBindDeviceRefusesOtherFiles(t *testing.T) {
	node, root := newReal(t)
	testcheck.NoError(t, node.WriteFile(root+"/file", nil))
	for _, device := range []string{
		root + "/file", "/etc/passwd", "/dev", "/dev/../etc/passwd", "/dev/no-such-device", "",
	} {
		if node.BindDevice(device, root+"/file", false) == nil {
			t.Errorf("BindDevice(%q) succeeded", device)
		}
	}
}

func TestResetRemovesLocksAndDevices(t *testing.T) {
	node := nodefs.NewMemory("/")
	testcheck.NoError(t, node.WriteFile("/file", nil))
	testcheck.NoError(t, node.MountDevice("disk", "/file", false))
	testcheck.NoError(t, node.Chown("/file", 1, 1))
	wantInfo(t, node, "/file", nodefs.Info{Mode: fs.ModeDevice | 0o600, UID: 1, GID: 1, Device: "disk"})
	_, err := node.LockDevice("/file")
	testcheck.NoError(t, err)
	node.Reset()
	_, err = node.DeviceLock("/file")
	wantError(t, err, fs.ErrNotExist)
	testcheck.NoError(t, node.MountDevice("disk", "/file", false))
	wantInfo(t, node, "/file", nodefs.Info{Mode: fs.ModeDevice | 0o600, Device: "disk"})
}

func TestRealUnmountAllReleasesLocks(t *testing.T) {
	node, root := newReal(t)
	for _, name := range []string{"/source", "/target"} {
		testcheck.NoError(t, node.WriteFile(root+name, make([]byte, 4096)))
	}
	testcheck.NoError(t, node.BindMount(root+"/source", root+"/target", false))
	for _, name := range []string{"/source", "/target"} {
		_, err := node.LockDevice(root + name)
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, node.UnmountAll())
	for _, name := range []string{"/source", "/target"} {
		_, err := node.DeviceLock(root + name)
		wantError(t, err, fs.ErrNotExist)
	}
	wantMounted(t, node, root+"/target", false)
}
