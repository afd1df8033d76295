package nodefs

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A btrfs with a changed UUID still reports the original one.
func TestBtrfsKeepsOriginalUUID(t *testing.T) {
	for _, tool := range []string{"mkfs.btrfs", "btrfstune"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s: install btrfs-progs", tool)
		}
	}
	root := t.TempDir()
	image := filepath.Join(root, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.btrfs", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := ReadSuperblock(image)
	if err != nil || made.Type != "btrfs" || made.UUID == [16]byte{} || made.OriginalUUID != made.UUID {
		t.Fatalf("formatted: %+v, %v", made, err)
	}
	disk, err := NewReal(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var own [16]byte
		if _, err := rand.Read(own[:]); err != nil {
			t.Fatal(err)
		}
		if err := disk.SetUUID(t.Context(), image, own); err != nil {
			t.Fatal(err)
		}
		if changed, err := ReadSuperblock(image); err != nil || changed.UUID != own ||
			changed.OriginalUUID != made.UUID {
			t.Errorf("with a UUID of its own it is %+v, %v; want %x of origin %x", changed, err, own, made.UUID)
		}
	}
}
