package nodefs_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// mountTree mounts a new tree at /tree of a new disk.
func mountTree(t *testing.T, tree *nodefs.Tree) *nodefs.Memory {
	t.Helper()
	memory := nodefs.NewMemory("/")
	testcheck.NoError(t, memory.MkdirAll("/tree"))
	testcheck.NoError(t, memory.MountTree(tree, "tree", "/tree", false))
	return memory
}

// TestCloneIsIndependent changes a tree and its clone in every way: neither shows the other's changes.
func TestCloneIsIndependent(t *testing.T) {
	fill := func(memory *nodefs.Memory) {
		t.Helper()
		testcheck.NoError(t, memory.MkdirAll("/tree/a/b"))
		testcheck.NoError(t, memory.WriteFile("/tree/a/b/file", []byte("content")))
		testcheck.NoError(t, memory.Symlink("b/file", "/tree/a/link"))
		testcheck.NoError(t, memory.Chown("/tree/a/b", 7, 8))
		testcheck.NoError(t, memory.Chmod("/tree/a", 0o2755))
	}
	change := func(memory *nodefs.Memory) {
		t.Helper()
		testcheck.NoError(t, memory.WriteFile("/tree/a/b/file", []byte("changed")))
		testcheck.NoError(t, memory.Rename("/tree/a/b", "/tree/c"))
		testcheck.NoError(t, memory.Remove("/tree/a/link"))
		testcheck.NoError(t, memory.Chown("/tree/c/file", 1, 2))
		testcheck.NoError(t, memory.Chmod("/tree", 0o700))
	}
	for _, name := range []string{"tree", "clone"} {
		tree := nodefs.NewTree()
		fill(mountTree(t, tree))
		clone := tree.Clone()[0]
		hash, owners := tree.Hash(), tree.Owners()
		if diff := cmp.Diff(owners, clone.Owners()); diff != "" || clone.Hash() != hash {
			t.Fatalf("clone differs: %s", diff)
		}
		changed, kept := tree, clone
		if name == "clone" {
			changed, kept = clone, tree
		}
		change(mountTree(t, changed))
		if diff := cmp.Diff(owners, kept.Owners()); diff != "" || kept.Hash() != hash {
			t.Errorf("a change of the %s changes the other: %s", name, diff)
		}
		data, err := mountTree(t, kept).ReadFile("/tree/a/link") // links are followed
		if err != nil || string(data) != "content" {
			t.Errorf("read %q, %v", data, err)
		}
	}
}

// TestClonesAreOfOneInstant clones two trees while a writer writes each number to the first and then to the second.
func TestClonesAreOfOneInstant(t *testing.T) {
	first, second := nodefs.NewTree(), nodefs.NewTree()
	write := func(memory *nodefs.Memory, n byte) {
		if err := memory.WriteFile("/tree/n", []byte{n}); err != nil {
			t.Error(err)
		}
	}
	read := func(tree *nodefs.Tree) byte {
		data, err := mountTree(t, tree).ReadFile("/tree/n")
		testcheck.NoError(t, err)
		return data[0]
	}
	one, two := mountTree(t, first), mountTree(t, second)
	write(one, 0)
	write(two, 0)
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := byte(1); ; n = (n + 1) % 200 {
			select {
			case <-done:
				return
			default:
				write(one, n)
				write(two, n)
			}
		}
	})
	for range 2000 {
		clones := first.Clone(second)
		a, b := read(clones[0]), read(clones[1])
		if a != b && a != (b+1)%200 {
			t.Errorf("the first has %d, the second %d", a, b)
		}
	}
	close(done)
	writer.Wait()
}
