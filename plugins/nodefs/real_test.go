package nodefs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

func TestRealRefusesLinksOutOfRoot(t *testing.T) {
	node, root := newReal(t)
	outside := t.TempDir()
	testcheck.NoError(t, os.WriteFile(filepath.Join(outside, "file"), []byte("not ours"), 0o600))
	testcheck.NoError(t, os.Symlink(outside, filepath.Join(root, "out")))
	testcheck.NoError(t, os.Symlink(filepath.Join(outside, "missing"), filepath.Join(root, "broken")))
	testcheck.NoError(t, os.Symlink("inner", filepath.Join(root, "fine")))
	inner := directories(t, node, root, "inner")[0]

	for _, name := range []string{root + "/out", root + "/out/file", root + "/broken"} {
		_, err := node.ReadFile(name)
		wantError(t, err, nodefs.ErrOutside)
		wantError(t, node.MkdirAll(name), nodefs.ErrOutside)
		wantError(t, node.BindMount(inner, name, false), nodefs.ErrOutside)
		wantError(t, node.BindMount(name, inner, false), nodefs.ErrOutside)
		wantError(t, node.Unmount(name), nodefs.ErrOutside)
	}
	wantError(t, node.WriteFile(root+"/out/file", nil), nodefs.ErrOutside)
	wantError(t, node.Remove(root+"/out/file"), nodefs.ErrOutside)

	testcheck.NoError(t, node.WriteFile(root+"/fine/file", []byte("inside")))
	wantContent(t, node, inner+"/file", "inside")
	wantError(t, node.RemoveAll(root+"/out/file"), nodefs.ErrOutside)
	testcheck.NoError(t, os.Symlink(outside, filepath.Join(inner, "out")))
	testcheck.NoError(t, node.RemoveAll(inner)) // contains a link that leads out
	testcheck.NoError(t, node.RemoveAll(root+"/broken"))
	testcheck.NoError(t, node.Remove(root+"/out"))
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("removing the link changed its target: %v", err)
	}
}

func TestRealUnmountAllHandlesNestedAndStackedMounts(t *testing.T) {
	node, root := newReal(t)
	dirs := directories(t, node, root, "source/sub", "target")
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[1], false))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1]+"/sub", false))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1]+"/sub", true))
	testcheck.NoError(t, node.UnmountAll())
	mounts, err := node.Mounts()
	testcheck.NoError(t, err)
	if len(mounts) != 0 {
		t.Errorf("remaining after UnmountAll: %+v", mounts)
	}
}

func TestRealUnmountReportsOpenFileAsBusy(t *testing.T) {
	node, root := newReal(t)
	dirs := directories(t, node, root, "source", "target")
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", nil))
	testcheck.NoError(t, node.BindMount(dirs[0], dirs[1], false))
	file, err := os.Open(dirs[1] + "/file")
	testcheck.NoError(t, err)
	wantError(t, node.Unmount(dirs[1]), nodefs.ErrBusy)
	wantError(t, node.UnmountAll(), nodefs.ErrBusy)
	testcheck.NoError(t, file.Close())
	testcheck.NoError(t, node.Unmount(dirs[1]))
}

func TestNewRealRefusesRootDirectory(t *testing.T) {
	for _, root := range []string{"/", "//", "", "relative"} {
		if _, err := nodefs.NewReal(root); err == nil {
			t.Errorf("NewReal(%q) succeeded", root)
		}
	}
}
