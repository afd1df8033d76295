package nodefs_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// wantInfo compares the result of Stat; an owner of -1 matches any.
func wantInfo(t *testing.T, node nodefs.FS, name string, want nodefs.Info) {
	t.Helper()
	got, err := node.Stat(name)
	testcheck.NoError(t, err)
	if want.UID < 0 {
		want.UID = got.UID
	}
	if want.GID < 0 {
		want.GID = got.GID
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Stat(%s) (-want +got):\n%s", name, diff)
	}
}

func modesOfTheNew(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "a/b")[0]
	testcheck.NoError(t, node.WriteFile(dir+"/file", []byte("1")))
	testcheck.NoError(t, node.Symlink("file", dir+"/link"))
	wantInfo(t, node, root, nodefs.Info{Mode: fs.ModeDir | 0o750})
	wantInfo(t, node, root+"/a", nodefs.Info{Mode: fs.ModeDir | 0o750})
	wantInfo(t, node, dir, nodefs.Info{Mode: fs.ModeDir | 0o750})
	wantInfo(t, node, dir+"/file", nodefs.Info{Mode: 0o640})
	wantInfo(t, node, dir+"/link", nodefs.Info{Mode: fs.ModeSymlink | 0o777})
}

func ownersAreShared(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source/sub", "target", "readonly")
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("1")))
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[1], false))
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[2], true))
	testcheck.NoError(t, node.Chown(dirs[1], -1, 2000))
	testcheck.NoError(t, node.Chmod(dirs[1], fs.ModeSetgid|0o770))
	testcheck.NoError(t, node.Chown(dirs[1]+"/sub/file", 1000, 2000))
	testcheck.NoError(t, node.Chown(dirs[1]+"/sub/file", -1, -1))
	testcheck.NoError(t, node.Chmod(dirs[1]+"/sub/file", 0o4666)) // fs.FileMode has no 04000: only fs.ModeSetuid sets it
	for _, top := range []string{root + "/source", dirs[1], dirs[2]} {
		wantInfo(t, node, top, nodefs.Info{Mode: fs.ModeDir | fs.ModeSetgid | 0o770, GID: 2000})
		wantInfo(t, node, top+"/sub/file", nodefs.Info{Mode: 0o666, UID: 1000, GID: 2000})
	}
	wantError(t, node.Chown(dirs[2]+"/sub/file", 0, 0), nodefs.ErrReadOnly)
	wantError(t, node.Chmod(dirs[2]+"/sub/file", 0o600), nodefs.ErrReadOnly)
	testcheck.NoError(t, node.WriteFile(dirs[0]+"/file", []byte("2"))) // which replaces the file by a new one
	wantInfo(t, node, dirs[0]+"/file", nodefs.Info{Mode: 0o640})
}

func setgidIsInherited(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "shared")[0]
	testcheck.NoError(t, node.Chown(dir, 1000, 2000))
	testcheck.NoError(t, node.Chmod(dir, fs.ModeSetgid|0o770))
	testcheck.NoError(t, node.MkdirAll(dir+"/sub"))
	testcheck.NoError(t, node.WriteFile(dir+"/sub/file", nil))
	testcheck.NoError(t, node.Symlink("file", dir+"/sub/link"))
	wantInfo(t, node, dir+"/sub", nodefs.Info{Mode: fs.ModeDir | fs.ModeSetgid | 0o750, GID: 2000})
	wantInfo(t, node, dir+"/sub/file", nodefs.Info{Mode: 0o640, GID: 2000})
	wantInfo(t, node, dir+"/sub/link", nodefs.Info{Mode: fs.ModeSymlink | 0o777, GID: 2000})
}

func newOwnerLosesSetuid(t *testing.T, node nodefs.FS, root string) {
	dir := directories(t, node, root, "dir")[0]
	testcheck.NoError(t, node.WriteFile(root+"/program", nil))
	testcheck.NoError(t, node.WriteFile(root+"/mandatory", nil))
	all := fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	testcheck.NoError(t, node.Chmod(root+"/program", all|0o755))
	testcheck.NoError(t, node.Chmod(root+"/mandatory", fs.ModeSetgid|0o640))
	testcheck.NoError(t, node.Chmod(dir, all|0o755))
	for _, name := range []string{root + "/program", root + "/mandatory", dir} {
		testcheck.NoError(t, node.Chown(name, 1000, 2000))
	}
	wantInfo(t, node, root+"/program", nodefs.Info{Mode: fs.ModeSticky | 0o755, UID: 1000, GID: 2000})
	wantInfo(t, node, root+"/mandatory", nodefs.Info{Mode: fs.ModeSetgid | 0o640, UID: 1000, GID: 2000})
	wantInfo(t, node, dir, nodefs.Info{Mode: fs.ModeDir | all | 0o755, UID: 1000, GID: 2000})
}

func TestHashIgnoresOwners(t *testing.T) {
	tree, node := nodefs.NewTree(), nodefs.NewMemory("/")
	testcheck.NoError(t, node.MkdirAll("/v"))
	testcheck.NoError(t, node.MountTree(tree, "disk", "/v", false))
	testcheck.NoError(t, node.WriteFile("/v/file", []byte("1")))
	before := tree.Hash()
	testcheck.NoError(t, node.Chown("/v/file", 1, 1))
	testcheck.NoError(t, node.Chmod("/v", 0o777))
	if tree.Hash() != before {
		t.Error("the hash depends on owner or mode")
	}
	testcheck.NoError(t, node.Symlink("file", "/v/link"))
	linked := tree.Hash()
	testcheck.NoError(t, node.Remove("/v/link"))
	testcheck.NoError(t, node.WriteFile("/v/link", []byte("file")))
	if linked == before || linked == tree.Hash() {
		t.Error("the hash of a link equals that of nothing or of a file")
	}
}

func TestChmodOfLinkIsUnsupported(t *testing.T) {
	node, root := newReal(t)
	memory := nodefs.NewMemory("/n")
	for _, each := range []struct {
		node nodefs.FS
		root string
	}{{node, root}, {memory, "/n"}} {
		testcheck.NoError(t, each.node.Symlink("nowhere", each.root+"/link"))
		if err := each.node.Chmod(each.root+"/link", 0o600); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got error %v, want errors.ErrUnsupported", err)
		}
	}
}
