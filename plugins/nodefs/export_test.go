package nodefs_test

import (
	"io/fs"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// exportsAreShared mounts a directory of another disk of the same implementation.
func exportsAreShared(t *testing.T, node nodefs.FS, root string) {
	var server nodefs.FS = nodefs.NewMemory("/exports")
	base := "/exports"
	if _, real := node.(*nodefs.Real); real {
		base = path.Join(t.TempDir(), "exports")
		var err error
		server, err = nodefs.NewReal(base)
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, server.MkdirAll(base+"/files/v"), server.WriteFile(base+"/files/v/file", []byte("1")),
		server.WriteFile(base+"/files/file", nil))
	dirs := directories(t, node, root, "a", "b")
	export := nodefs.Export{Source: "files:/v", Disk: server, Dir: base + "/files/v"}
	testcheck.NoError(t, node.MountExport(export, dirs[0]))
	export.Options = []string{"hard", "ro"}
	testcheck.NoError(t, node.MountExport(export, dirs[1]))
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/new", []byte("2")), server.WriteFile(base+"/files/v/newer", []byte("3")))
	for _, dir := range dirs {
		wantContent(t, node, dir+"/file", "1")
		wantContent(t, node, dir+"/new", "2")
		wantContent(t, node, dir+"/newer", "3")
	}
	wantContent(t, server, base+"/files/v/new", "2")
	wantError(t, node.WriteFile(dirs[1]+"/new", nil), nodefs.ErrReadOnly)
	mounts, err := node.Mounts()
	if err != nil || len(mounts) != 2 || mounts[0].ReadOnly || !mounts[1].ReadOnly {
		t.Errorf("Mounts = %v, %v", mounts, err)
	}
	for _, dir := range dirs {
		testcheck.NoError(t, node.UnmountExport(dir, time.Minute))
		wantError(t, node.UnmountExport(dir, time.Minute), nodefs.ErrNotMounted)
		wantMounted(t, node, dir, false)
	}
	wantContent(t, server, base+"/files/v/new", "2")

	export.Dir = base + "/files/missing"
	wantError(t, node.MountExport(export, dirs[0]), fs.ErrNotExist)
	export.Dir = base + "/files/file"
	wantError(t, node.MountExport(export, dirs[0]), syscall.ENOTDIR)
	export.Dir = base + "/files/v"
	wantError(t, node.MountExport(export, root+"/missing"), fs.ErrNotExist)
	wantError(t, node.MountExport(export, "/elsewhere"), nodefs.ErrOutside)
	wantError(t, node.UnmountExport("/elsewhere", time.Minute), nodefs.ErrOutside)
	export.Disk = nil
	if _, real := node.(*nodefs.Real); !real {
		if err := node.MountExport(export, dirs[0]); err == nil {
			t.Error("a node in memory has mounted an export of a real server")
		}
	}
	if mounts, err := node.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("left: %v, %v", mounts, err)
	}
}
