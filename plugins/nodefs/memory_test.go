package nodefs_test

import (
	"fmt"
	"io/fs"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

func ExampleMemory() {
	volume := nodefs.NewTree()
	node := nodefs.NewMemory("/node-1")
	_ = node.MkdirAll("/node-1/stage")
	_ = node.MkdirAll("/node-1/pod")
	_ = node.MountTree(volume, "disk-7", "/node-1/stage", false)
	_ = node.BindMount("/node-1/stage", "/node-1/pod", true)
	_ = node.WriteFile("/node-1/stage/log", []byte("hello"))

	fmt.Println(volume.Files())
	fmt.Println(node.WriteFile("/node-1/pod/log", nil))
	mounts, _ := node.Mounts()
	for _, mount := range mounts {
		fmt.Printf("%+v\n", mount)
	}
	// Output:
	// [log]
	// write /node-1/pod/log: read-only file system
	// {Path:/node-1/pod Source:disk-7 FSType:memory ReadOnly:true}
	// {Path:/node-1/stage Source:disk-7 FSType:memory ReadOnly:false}
}

func TestResetRemovesMountsAndKeepsFiles(t *testing.T) {
	volume, node := nodefs.NewTree(), nodefs.NewMemory("/")
	testcheck.NoError(t, node.MkdirAll("/stage"))
	testcheck.NoError(t, node.WriteFile("/own", []byte("kept")))
	testcheck.NoError(t, node.MountTree(volume, "disk", "/stage", false))
	testcheck.NoError(t, node.WriteFile("/stage/file", []byte("on the volume")))
	node.Reset()
	wantMounted(t, node, "/stage", false)
	wantContent(t, node, "/own", "kept")
	if diff := cmp.Diff([]string{"file"}, volume.Files()); diff != "" {
		t.Errorf("files of the volume (-want +got):\n%s", diff)
	}
}

// TestMountAtIsTheTopmost compares MountAt with the last entry of Mounts for each path.
func TestMountAtIsTheTopmost(t *testing.T) {
	node := nodefs.NewMemory("/")
	testcheck.NoError(t, node.MkdirAll("/a/b"))
	testcheck.NoError(t, node.MountTree(nodefs.NewTree(), "below", "/a/b", false))
	testcheck.NoError(t, node.MountTree(nodefs.NewTree(), "first", "/a", false))
	testcheck.NoError(t, node.MountTree(nodefs.NewTree(), "second", "/a", true))
	got, mounted, err := node.MountAt("/a/")
	if want := (nodefs.Mount{Path: "/a", Source: "second", FSType: "memory", ReadOnly: true}); got != want ||
		!mounted || err != nil {
		t.Errorf("MountAt = %+v, %v, %v; want %+v", got, mounted, err, want)
	}
	if got, mounted, err := node.MountAt("/"); mounted || err != nil {
		t.Errorf("MountAt = %+v, %v, %v for the node's own disk", got, mounted, err)
	}
	_, _, err = node.MountAt("/a/b")
	wantError(t, err, fs.ErrNotExist) // it is hidden
	wantError(t, node.Unmount("/"), nodefs.ErrNotMounted)
	testcheck.NoError(t, node.Unmount("/a"))
	testcheck.NoError(t, node.Unmount("/a"))
	if got, mounted, err := node.MountAt("/a/b"); got.Source != "below" || !mounted || err != nil {
		t.Errorf("MountAt = %+v, %v, %v; want the hidden mount", got, mounted, err)
	}
}

func TestOneTreeOnTwoNodes(t *testing.T) {
	volume := nodefs.NewTree()
	one, two := nodefs.NewMemory("/one"), nodefs.NewMemory("/two")
	testcheck.NoError(t, one.MkdirAll("/one/v"))
	testcheck.NoError(t, two.MkdirAll("/two/v"))
	testcheck.NoError(t, one.MountTree(volume, "disk", "/one/v", false))
	testcheck.NoError(t, two.MountTree(volume, "disk", "/two/v", true))
	testcheck.NoError(t, one.WriteFile("/one/v/file", []byte("seen")))
	wantContent(t, two, "/two/v/file", "seen")
	if got := volume.SizeBytes(); got != 4 {
		t.Errorf("SizeBytes = %d, want 4", got)
	}
}

func TestHashDependsOnContentOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.MapOf(rapid.StringMatching(`[ab]{1,2}`), rapid.String()).Draw(t, "files")
		other := rapid.MapOf(rapid.StringMatching(`[ab]{1,2}`), rapid.String()).Draw(t, "other")
		same := cmp.Equal(files, other)
		if got := treeOf(files).Hash() == treeOf(other).Hash(); got != same {
			t.Fatalf("equal hashes: %v, equal content: %v", got, same)
		}
	})
}

func treeOf(files map[string]string) *nodefs.Tree {
	tree, node := nodefs.NewTree(), nodefs.NewMemory("/")
	_ = node.MkdirAll("/v")
	_ = node.MountTree(tree, "disk", "/v", false)
	for name, content := range files {
		_ = node.WriteFile(path.Join("/v", name), []byte(content))
	}
	return tree
}
