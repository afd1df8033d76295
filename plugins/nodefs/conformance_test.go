package nodefs_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// conformance are the tests of both implementations; root is that of an empty node.
var conformance = []struct {
	name string
	run  func(t *testing.T, node nodefs.FS, root string)
}{
	{"files are written, replaced, listed and removed", filesAreKept},
	{"a file of zeros has its size", zerosHaveTheirSize},
	{"a tree is removed whole", treesAreRemoved},
	{"a tree in which something is mounted is not touched", mountedTreesStay},
	{"a missing path is fs.ErrNotExist", missingPaths},
	{"paths outside the root are refused", outsideIsRefused},
	{"a bind mount shows the same files twice", bindShowsTheSame},
	{"a read-only bind refuses writes, and so does a bind of it", readOnlyRefusesWrites},
	{"a mount hides existing content until it is unmounted", mountHides},
	{"stacked mounts come off in reverse", stackedMounts},
	{"a mount point cannot be removed", mountPointStays},
	{"a mount below makes busy", mountBelowIsBusy},
	{"the mount table is sorted and spelt as the root is", mountTable},
	{"a mount has options", mountsHaveOptions},
	{"names with spaces and backslashes work", oddNames},
	{"new entries have the modes of a node's files", modesOfTheNew},
	{"owners and modes are set and seen through every mount", ownersAreShared},
	{"new entries in a setgid directory inherit its group", setgidIsInherited},
	{"a new owner does not inherit setuid", newOwnerLosesSetuid},
	{"a link can have any target", linksAreText},
	{"links inside the root are followed", linksAreFollowed},
	{"a link that leaves the root, or leads nowhere, is not followed", linksOutAreRefused},
	{"calls on an entry act on the link itself", linksThemselves},
	{"a file is bound onto a file only", filesAreBound},
	{"part of a volume is bound", partsAreBound},
	{"part of a read-only mount is read-only", partsOfReadOnly},
	{"a locked file keeps its mount busy", locksHold},
	{"unlocking without a lock succeeds", noLock},
	{"a link is replaced in one step", linksAreReplaced},
	{"a directory moves with its content", directoriesMove},
	{"what must not be renamed stays", renamesAreRefused},
	{"a tmpfs is empty and loses its content", tmpfsIsVolatile},
	{"an export is shared", exportsAreShared},
}

func TestMemoryConforms(t *testing.T) {
	for _, test := range conformance {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, nodefs.NewMemory("/var/lib/kubelet"), "/var/lib/kubelet")
		})
	}
}

func TestRealConforms(t *testing.T) {
	for _, test := range conformance {
		t.Run(test.name, func(t *testing.T) {
			node, root := newReal(t)
			test.run(t, node, root)
		})
	}
}

// newReal returns an empty real node that is unmounted after the test. Its root is a symbolic link,
// as a user's may be.
func newReal(t *testing.T) (*nodefs.Real, string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("real mounts need root on Linux")
	}
	directory := t.TempDir()
	root := filepath.Join(directory, "node")
	testcheck.NoError(t, os.Mkdir(filepath.Join(directory, "there"), 0o750))
	testcheck.NoError(t, os.Symlink("there", root))
	node, err := nodefs.NewReal(root)
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		if err := node.UnmountAll(); err != nil {
			t.Errorf("UnmountAll: %v", err)
		}
	})
	return node, root
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func wantContent(t *testing.T, node nodefs.FS, name, want string) {
	t.Helper()
	got, err := node.ReadFile(name)
	testcheck.NoError(t, err)
	if string(got) != want {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

func wantMounted(t *testing.T, node nodefs.FS, name string, want bool) {
	t.Helper()
	got, err := node.IsMountPoint(name)
	testcheck.NoError(t, err)
	if got != want {
		t.Errorf("IsMountPoint(%s) = %v, want %v", name, got, want)
	}
}

// directories creates directories below root and returns their paths.
func directories(t *testing.T, node nodefs.FS, root string, names ...string) []string {
	t.Helper()
	var paths []string
	for _, name := range names {
		paths = append(paths, path.Join(root, name))
		testcheck.NoError(t, node.MkdirAll(path.Join(root, name)))
	}
	return paths
}

func filesAreKept(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "a/b")[0]
	testcheck.NoError(t, node.MkdirAll(dir))
	testcheck.NoError(t, node.WriteFile(dir+"/two", []byte("2")))
	testcheck.NoError(t, node.WriteFile(dir+"/one", []byte("old")))
	testcheck.NoError(t, node.WriteFile(dir+"/one", []byte("new")))
	wantContent(t, node, dir+"/one", "new")
	names, err := node.ReadDir(dir)
	testcheck.NoError(t, err)
	if diff := cmp.Diff([]string{"one", "two"}, names); diff != "" {
		t.Errorf("ReadDir (-want +got):\n%s", diff)
	}
	wantError(t, node.Remove(dir), nodefs.ErrNotEmpty)
	testcheck.NoError(t, node.Remove(dir+"/one"))
	testcheck.NoError(t, node.Remove(dir+"/two"))
	testcheck.NoError(t, node.Remove(dir))
	if there, err := node.Exists(dir); there || err != nil {
		t.Errorf("Exists = %v, %v after Remove", there, err)
	}
}

func treesAreRemoved(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "a/b/c", "a/bc", "d")
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("1")))
	testcheck.NoError(t, node.WriteFile(root+"/a/file", []byte("2")))
	testcheck.NoError(t, node.RemoveAll(root+"/a/b"))
	names, err := node.ReadDir(root + "/a")
	testcheck.NoError(t, err)
	if diff := cmp.Diff([]string{"bc", "file"}, names); diff != "" {
		t.Errorf("ReadDir after RemoveAll (-want +got):\n%s", diff)
	}
	testcheck.NoError(t, node.RemoveAll(root+"/a/file"))
	testcheck.NoError(t, node.RemoveAll(root+"/a"))
	testcheck.NoError(t, node.RemoveAll(root+"/a"))
	testcheck.NoError(t, node.RemoveAll(root+"/a/b/c"))
	if there, err := node.Exists(root + "/a"); there || err != nil {
		t.Errorf("Exists = %v, %v after RemoveAll", there, err)
	}
	if there, err := node.Exists(dirs[2]); !there || err != nil {
		t.Errorf("Exists of its neighbour = %v, %v", there, err)
	}
}

func mountedTreesStay(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source", "a/b/target", "a/c")
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("kept")))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], false))
	for _, name := range []string{dirs[1], root + "/a/b", root + "/a"} {
		wantError(t, node.RemoveAll(name), nodefs.ErrMounted)
	}
	if there, err := node.Exists(dirs[2]); !there || err != nil {
		t.Errorf("Exists of the mount's neighbor = %v, %v", there, err)
	}
	testcheck.NoError(t, node.WriteFile(dirs[1]+"/more", nil))
	testcheck.NoError(t, node.RemoveAll(dirs[1]+"/more")) // inside the mount, not the mount itself
	wantContent(t, node, dirs[0]+"/file", "kept")
	testcheck.NoError(t, node.Unmount(dirs[1]))
	testcheck.NoError(t, node.RemoveAll(root+"/a"))
	wantContent(t, node, dirs[0]+"/file", "kept")
}

func missingPaths(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "here")[0]
	testcheck.NoError(t, node.WriteFile(dir+"/file", nil))
	missing := dir + "/missing"
	_, err := node.ReadFile(missing)
	wantError(t, err, fs.ErrNotExist)
	_, err = node.ReadDir(missing)
	wantError(t, err, fs.ErrNotExist)
	_, err = node.IsMountPoint(missing)
	wantError(t, err, fs.ErrNotExist)
	wantError(t, node.Remove(missing), fs.ErrNotExist)
	wantError(t, node.Unmount(missing), fs.ErrNotExist)
	wantError(t, node.BindMount(dir, missing, false), fs.ErrNotExist)
	wantError(t, node.BindMount(missing, dir, false), fs.ErrNotExist)
	wantError(t, node.WriteFile(missing+"/deeper", nil), fs.ErrNotExist)
	_, err = node.Stat(missing)
	wantError(t, err, fs.ErrNotExist)
	_, err = node.Readlink(missing)
	wantError(t, err, fs.ErrNotExist)
	wantError(t, node.Chown(missing, 1, 1), fs.ErrNotExist)
	wantError(t, node.Chmod(missing, 0o700), fs.ErrNotExist)
	wantError(t, node.Symlink(dir, missing+"/deeper"), fs.ErrNotExist)
	_, err = node.LockDevice(missing)
	wantError(t, err, fs.ErrNotExist)
	if there, err := node.Exists(dir + "/file/below"); there || err != nil {
		t.Errorf("Exists below a file = %v, %v", there, err)
	}
	if node.MkdirAll(dir+"/file/below") == nil {
		t.Error("MkdirAll below a file succeeded")
	}
}

func outsideIsRefused(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "inside")[0]
	for _, name := range []string{
		"/", "/etc/volsim", path.Dir(root), root + "x/y", root + "/../x", dir + "/../inside", "inside", "",
	} {
		_, err := node.ReadFile(name)
		wantError(t, err, nodefs.ErrOutside)
		_, err = node.ReadDir(name)
		wantError(t, err, nodefs.ErrOutside)
		_, err = node.Exists(name)
		wantError(t, err, nodefs.ErrOutside)
		_, err = node.IsMountPoint(name)
		wantError(t, err, nodefs.ErrOutside)
		wantError(t, node.MkdirAll(name), nodefs.ErrOutside)
		wantError(t, node.WriteFile(name, nil), nodefs.ErrOutside)
		wantError(t, node.Remove(name), nodefs.ErrOutside)
		wantError(t, node.RemoveAll(name), nodefs.ErrOutside)
		wantError(t, node.Unmount(name), nodefs.ErrOutside)
		wantError(t, node.BindMount(name, dir, false), nodefs.ErrOutside)
		wantError(t, node.BindMount(dir, name, false), nodefs.ErrOutside)
		_, err = node.Stat(name)
		wantError(t, err, nodefs.ErrOutside)
		_, err = node.Readlink(name)
		wantError(t, err, nodefs.ErrOutside)
		wantError(t, node.Chown(name, 1, 1), nodefs.ErrOutside)
		wantError(t, node.Chmod(name, 0o700), nodefs.ErrOutside)
		wantError(t, node.Symlink(dir, name), nodefs.ErrOutside)
		_, err = node.LockDevice(name)
		wantError(t, err, nodefs.ErrOutside)
		_, err = node.DeviceLock(name)
		wantError(t, err, nodefs.ErrOutside)
		wantError(t, node.UnlockDevice(name), nodefs.ErrOutside)
	}
	wantError(t, node.Remove(root), nodefs.ErrOutside)
	wantError(t, node.RemoveAll(root), nodefs.ErrOutside)
	wantError(t, node.BindMount(dir, root, false), nodefs.ErrOutside)
	wantError(t, node.Symlink(dir, root), nodefs.ErrOutside)
}

func bindShowsTheSame(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source/sub", "target")
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[1], false))
	wantMounted(t, node, dirs[1], true)
	wantMounted(t, node, root+"/source", false)
	testcheck.NoError(t, node.WriteFile(dirs[1]+"/sub/file", []byte("through the bind")))
	wantContent(t, node, dirs[0]+"/file", "through the bind")
	testcheck.NoError(t, node.Unmount(dirs[1]))
	wantMounted(t, node, dirs[1], false)
	wantError(t, node.Unmount(dirs[1]), nodefs.ErrNotMounted)
	wantContent(t, node, dirs[0]+"/file", "through the bind")
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], false))
	wantContent(t, node, dirs[1]+"/file", "through the bind")
}

func readOnlyRefusesWrites(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source", "target", "again")
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("kept")))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], true))
	testcheck.NoError(t, node.BindMount(dirs[1], dirs[2], false))
	for _, dir := range dirs[1:] {
		wantError(t, node.WriteFile(dir+"/file", nil), nodefs.ErrReadOnly)
		wantError(t, node.MkdirAll(dir+"/new"), nodefs.ErrReadOnly)
		wantError(t, node.Remove(dir+"/file"), nodefs.ErrReadOnly)
		testcheck.NoError(t, node.MkdirAll(dir))
		wantContent(t, node, dir+"/file", "kept")
	}
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("writable here")))
}

func mountHides(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source", "target/inner", "deep")
	testcheck.NoError(t, node.WriteFile(dirs[2]+"/file", []byte("deep")))
	testcheck.NoError(t, node.BindMount(dirs[2], dirs[1], false))
	testcheck.NoError(t, node.BindMount(dirs[0], root+"/target", false))
	if there, err := node.Exists(dirs[1] + "/file"); there || err != nil {
		t.Errorf("Exists = %v, %v for a path hidden by a mount", there, err)
	}
	testcheck.NoError(t, node.Unmount(root+"/target"))
	wantContent(t, node, dirs[1]+"/file", "deep")
}

func stackedMounts(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "first", "second", "target")
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("first")))
	testcheck.NoError(t, node.WriteFile(dirs[1]+"/file", []byte("second")))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[2], false))
	testcheck.NoError(t, node.BindMount(dirs[1], dirs[2], false))
	wantContent(t, node, dirs[2]+"/file", "second")
	testcheck.NoError(t, node.Unmount(dirs[2]))
	wantContent(t, node, dirs[2]+"/file", "first")
	wantMounted(t, node, dirs[2], true)
}

func mountPointStays(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source", "target")
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], false))
	wantError(t, node.Remove(dirs[1]), nodefs.ErrMounted)
	testcheck.NoError(t, node.Unmount(dirs[1]))
	testcheck.NoError(t, node.Remove(dirs[1]))
}

func mountBelowIsBusy(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source/sub", "target")
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[1], false))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1]+"/sub", false))
	wantError(t, node.Unmount(dirs[1]), nodefs.ErrBusy)
	testcheck.NoError(t, node.Unmount(dirs[1]+"/sub"))
	testcheck.NoError(t, node.Unmount(dirs[1]))
}

func mountTable(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source", "b", "a")
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], false))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[2], true))
	mounts, err := node.Mounts()
	testcheck.NoError(t, err)
	var got []nodefs.Mount
	for _, mount := range mounts {
		if mount.Source == "" || mount.FSType == "" || mount.Source != mounts[0].Source {
			t.Errorf("mount without the source or type of its origin: %+v", mount)
		}
		got = append(got, nodefs.Mount{Path: mount.Path, ReadOnly: mount.ReadOnly})
	}
	want := []nodefs.Mount{{Path: dirs[2], ReadOnly: true}, {Path: dirs[1]}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Mounts (-want +got):\n%s", diff)
	}
}

func mountsHaveOptions(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source/below", "target")
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[1], true))
	for name, want := range map[string]string{dirs[0]: "rw", dirs[1]: "ro", dirs[1] + "/below": "ro"} {
		options, err := node.MountOptions(name)
		testcheck.NoError(t, err)
		if first, _, _ := strings.Cut(options, ","); first != want {
			t.Errorf("options of %s: %q, want them to begin with %q", name, options, want)
		}
	}
	_, err := node.MountOptions(root + "/missing")
	wantError(t, err, fs.ErrNotExist)
	testcheck.NoError(t, node.Unmount(dirs[1]))
}

func oddNames(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source", `with space	tab \040 back\slash`)
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], false))
	wantMounted(t, node, dirs[1], true)
	mounts, err := node.Mounts()
	testcheck.NoError(t, err)
	if len(mounts) != 1 || mounts[0].Path != dirs[1] {
		t.Errorf("Mounts = %+v, want only %q", mounts, dirs[1])
	}
	testcheck.NoError(t, node.Unmount(dirs[1]))
}
