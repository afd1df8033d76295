package nodefs_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

func linksAreReplaced(t *testing.T, node nodefs.FS, root string) {
	directories(t, node, root, "one", "two")
	testcheck.NoError(t, node.WriteFile(root+"/one/file", []byte("1")))
	testcheck.NoError(t, node.WriteFile(root+"/two/file", []byte("2")))
	testcheck.NoError(t, node.Symlink("one", root+"/data"))
	testcheck.NoError(t, node.Symlink("two", root+"/new"))
	testcheck.NoError(t, node.Rename(root+"/new", root+"/data"))
	wantContent(t, node, root+"/data/file", "2")
	wantContent(t, node, root+"/one/file", "1")
	_, err := node.Readlink(root + "/new")
	wantError(t, err, fs.ErrNotExist)
	// A file is replaced by a link, and the link itself is moved, not its target.
	testcheck.NoError(t, node.WriteFile(root+"/plain", nil))
	testcheck.NoError(t, node.Rename(root+"/data", root+"/plain"))
	target, err := node.Readlink(root + "/plain")
	if err != nil || target != "two" {
		t.Errorf("Readlink = %q, %v, want two", target, err)
	}
	testcheck.NoError(t, node.Rename(root+"/plain", root+"/plain"))
}

func directoriesMove(t *testing.T, node nodefs.FS, root string) {
	directories(t, node, root, "a/b", "empty", "full/x")
	testcheck.NoError(t, node.WriteFile(root+"/a/b/file", []byte("1")))
	testcheck.NoError(t, node.Chmod(root+"/a/b", 0o700))
	testcheck.NoError(t, node.Rename(root+"/a/b", root+"/empty"))
	wantContent(t, node, root+"/empty/file", "1")
	if info, err := node.Stat(root + "/empty"); err != nil || info.Mode != fs.ModeDir|0o700 {
		t.Errorf("Stat = %v, %v, want the mode of the moved directory", info.Mode, err)
	}
	wantError(t, node.Rename(root+"/empty", root+"/full"), nodefs.ErrNotEmpty)
	wantContent(t, node, root+"/empty/file", "1")
}

func renamesAreRefused(t *testing.T, node nodefs.FS, root string) {
	directories(t, node, root, "dir/sub", "mount", "target")
	testcheck.NoError(t, node.WriteFile(root+"/file", []byte("1")))
	testcheck.NoError(t, node.BindMount(root+"/dir", root+"/mount", false))
	for _, test := range []struct {
		from, to string
		want     error
	}{
		{"/missing", "/new", fs.ErrNotExist},
		{"/file", "/missing/new", fs.ErrNotExist},
		{"/file", "/file/new", syscall.ENOTDIR},
		{"/file", "/dir", syscall.EISDIR},
		{"/dir", "/file", syscall.ENOTDIR},
		{"/target", "/target/inner", syscall.EINVAL},
		{"/mount", "/moved", nodefs.ErrMounted},
		{"/target", "/mount", nodefs.ErrMounted},
		{"/file", "/mount/file", syscall.EXDEV},
		{"", "/new", nodefs.ErrOutside},
		{"/file", "", nodefs.ErrOutside},
		{"/file", "/../out", nodefs.ErrOutside},
	} {
		if err := node.Rename(root+test.from, root+test.to); err == nil {
			t.Errorf("Rename(%s, %s) succeeded", test.from, test.to)
		} else {
			wantError(t, err, test.want)
		}
	}
	wantContent(t, node, root+"/file", "1")
}

func tmpfsIsVolatile(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "memory")[0]
	testcheck.NoError(t, node.WriteFile(dir+"/below", []byte("disk")))
	if err := node.MountTmpfs(dir, -1); err == nil {
		t.Error("a size of -1 was accepted")
	}
	wantError(t, node.MountTmpfs(root+"/missing", 0), fs.ErrNotExist)
	testcheck.NoError(t, node.MountTmpfs(dir, 1<<20))
	if info, err := node.Stat(dir); err != nil || info.Mode != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("Stat = %v, %v, want 1777", info.Mode, err)
	}
	if there, err := node.Exists(dir + "/below"); there || err != nil {
		t.Errorf("Exists = %v, %v, want what is below to be hidden", there, err)
	}
	testcheck.NoError(t, node.WriteFile(dir+"/file", []byte("memory")))
	mounts, err := node.Mounts()
	if err != nil || len(mounts) != 1 || mounts[0].FSType != "tmpfs" || mounts[0].Path != dir {
		t.Errorf("Mounts = %v, %v", mounts, err)
	}
	testcheck.NoError(t, node.Unmount(dir))
	wantContent(t, node, dir+"/below", "disk")
	testcheck.NoError(t, node.MountTmpfs(dir, 0))
	if there, err := node.Exists(dir + "/file"); there || err != nil {
		t.Errorf("Exists = %v, %v, want an empty tmpfs", there, err)
	}
	testcheck.NoError(t, node.Unmount(dir))
}
