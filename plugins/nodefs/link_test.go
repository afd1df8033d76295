package nodefs_test

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

func wantLink(t *testing.T, node nodefs.FS, name, want string) {
	t.Helper()
	got, err := node.Readlink(name)
	testcheck.NoError(t, err)
	if got != want {
		t.Errorf("Readlink(%s) = %q, want %q", name, got, want)
	}
}

func linksAreText(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "dir")[0]
	for name, target := range map[string]string{
		"device": "/dev/nothing", "broken": "missing", "up": "../../../..", "fine": root,
	} {
		testcheck.NoError(t, node.Symlink(target, dir+"/"+name))
		wantLink(t, node, dir+"/"+name, target)
		info, err := node.Stat(dir + "/" + name)
		testcheck.NoError(t, err)
		if info.Mode.Type() != fs.ModeSymlink {
			t.Errorf("Stat(%s) = %v, want a symbolic link", name, info.Mode)
		}
	}
	wantError(t, node.Symlink("other", dir+"/device"), fs.ErrExist)
	wantError(t, node.Symlink("other", dir), fs.ErrExist)
	_, err := node.Readlink(dir)
	wantError(t, err, syscall.EINVAL)
}

func linksAreFollowed(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "a/b", "c", "mounted")
	testcheck.NoError(t, node.Symlink(root+"/a", root+"/absolute"))
	testcheck.NoError(t, node.Symlink("../a", dirs[1]+"/relative"))
	testcheck.NoError(t, node.Symlink("../c/relative/./b", root+"/a/around"))
	testcheck.NoError(t, node.WriteFile(root+"/absolute/b/file", []byte("1")))
	for _, name := range []string{"/c/relative/b/file", "/a/around/file", "/absolute/around/file"} {
		wantContent(t, node, root+name, "1")
	}
	testcheck.NoError(t, node.MkdirAll(dirs[1]+"/relative/new/deep"))
	if there, err := node.Exists(root + "/a/new/deep"); !there || err != nil {
		t.Errorf("Exists = %v, %v for a file created through a link", there, err)
	}
	testcheck.NoError(t, node.BindMount(root+"/a/around", root+"/absolute/new", false))
	wantContent(t, node, root+"/a/new/file", "1")
	wantMounted(t, node, root+"/c/relative/new", true)
	mounts, err := node.Mounts()
	testcheck.NoError(t, err)
	if len(mounts) != 1 || mounts[0].Path != root+"/a/new" {
		t.Errorf("Mounts = %+v, want only %s", mounts, root+"/a/new")
	}
	wantError(t, node.RemoveAll(root+"/absolute/new"), nodefs.ErrMounted)
	testcheck.NoError(t, node.Unmount(root+"/absolute/new"))
}

func linksOutAreRefused(t *testing.T, node nodefs.FS, root string) {
	inner := directories(t, node, root, "inner")[0]
	testcheck.NoError(t, node.Symlink(path.Dir(root), root+"/out"))
	testcheck.NoError(t, node.Symlink("missing", root+"/broken"))
	testcheck.NoError(t, node.Symlink("../..", inner+"/up"))
	testcheck.NoError(t, node.Symlink("round", root+"/round"))
	for _, name := range []string{
		root + "/out", root + "/out/x", root + "/broken", root + "/broken/x", inner + "/up", root + "/round",
	} {
		_, err := node.ReadFile(name)
		wantError(t, err, nodefs.ErrOutside)
		if there, _ := node.Exists(name); there {
			t.Errorf("%s exists", name)
		}
		wantError(t, node.MkdirAll(name), nodefs.ErrOutside)
		wantError(t, node.BindMount(inner, name, false), nodefs.ErrOutside)
		wantError(t, node.BindMount(name, inner, false), nodefs.ErrOutside)
		wantError(t, node.Unmount(name), nodefs.ErrOutside)
		_, err = node.LockDevice(name)
		wantError(t, err, nodefs.ErrOutside)
	}
	if _, err := node.Exists(root + "/broken"); err != nil {
		t.Errorf("Exists of where a broken link leads: %v", err)
	}
	wantError(t, node.WriteFile(root+"/out/x", nil), nodefs.ErrOutside)
	wantError(t, node.Chmod(root+"/out/x", 0o600), nodefs.ErrOutside)
	wantError(t, node.Symlink("x", root+"/out/x"), nodefs.ErrOutside)
}

func linksThemselves(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "dir")[0]
	testcheck.NoError(t, node.WriteFile(dir+"/file", []byte("kept")))
	for _, name := range []string{"/owned", "/replaced", "/removed", "/all"} {
		testcheck.NoError(t, node.Symlink(dir, root+name))
	}
	testcheck.NoError(t, node.Chown(root+"/owned", 1000, 2000))
	wantInfo(t, node, root+"/owned", nodefs.Info{Mode: fs.ModeSymlink | 0o777, UID: 1000, GID: 2000})
	wantInfo(t, node, dir, nodefs.Info{Mode: fs.ModeDir | 0o750})
	testcheck.NoError(t, node.WriteFile(root+"/replaced", []byte("a file")))
	wantContent(t, node, root+"/replaced", "a file")
	testcheck.NoError(t, node.Remove(root+"/removed"))
	testcheck.NoError(t, node.RemoveAll(root+"/all"))
	if _, err := node.Stat(root + "/removed"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of the removed link: %v", err)
	}
	wantContent(t, node, dir+"/file", "kept")
}
