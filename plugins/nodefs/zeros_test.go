package nodefs_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// zerosHaveTheirSize writes zeros in the place of a file, and a file in the place of zeros.
func zerosHaveTheirSize(t *testing.T, node nodefs.FS, root string) {
	t.Helper()
	file := root + "/file"
	testcheck.NoError(t, node.WriteFile(file, []byte("data")), node.WriteZeros(file, 3<<20))
	testcheck.Equal(t, "zeros", true, string(testcheck.Must(node.ReadFile(file))) == string(make([]byte, 3<<20)))
	mode := testcheck.Must(node.Stat(file)).Mode
	testcheck.Equal(t, "mode", "-rw-r-----", mode.String())
	testcheck.NoError(t, node.WriteZeros(file, 0))
	testcheck.Equal(t, "nothing", "", string(testcheck.Must(node.ReadFile(file))))
	testcheck.NoError(t, node.WriteZeros(file, 5), node.WriteFile(file, []byte("data")))
	testcheck.Equal(t, "data", "data", string(testcheck.Must(node.ReadFile(file))))
	if err := node.WriteZeros(file, -1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a negative size: %v, want %v", err, syscall.EINVAL)
	}
	testcheck.NoError(t, node.MkdirAll(root+"/directory"))
	if err := node.WriteZeros(root+"/directory", 1); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v, want %v", err, syscall.EISDIR)
	}
}

// TestZerosOfATree checks that a file of zeros counts in a tree and that trees with other zeros differ.
func TestZerosOfATree(t *testing.T) {
	t.Parallel()
	hashes := map[string]string{}
	for _, size := range []int64{0, 1, 1 << 40} {
		tree := nodefs.NewTree()
		node := nodefs.NewMemory("/")
		testcheck.NoError(t, node.MkdirAll("/volume"), node.MountTree(tree, "disk", "/volume", false),
			node.WriteZeros("/volume/fill", size), node.WriteFile("/volume/file", []byte("four")))
		testcheck.Equal(t, "size", size+4, tree.SizeBytes())
		hashes[tree.Hash()] = fmt.Sprint(size)
	}
	testcheck.Equal(t, "different hashes", 3, len(hashes))
}
