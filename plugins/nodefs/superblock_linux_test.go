package nodefs

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
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

// A volume that is created again has the UUID of the one before. libblkid may still know that from
// the device that the one before had.
func TestUUIDOfDeviceThatWasReleased(t *testing.T) {
	for _, tool := range []string{"mkfs.btrfs", "btrfstune", "blkid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if _, err := os.Stat(loopdev.ControlNode); err != nil || os.Geteuid() != 0 {
		t.Skipf("needs root and loop devices: %v", err)
	}
	root := t.TempDir()
	disk, err := NewReal(root)
	testcheck.NoError(t, err)
	own := [16]byte{1, 2, 3}
	_, err = rand.Read(own[3:])
	testcheck.NoError(t, err)
	made := filepath.Join(root, "made")
	testcheck.NoError(t, os.WriteFile(made, nil, 0o600), os.Truncate(made, 256<<20))
	if output, err := exec.Command("mkfs.btrfs", "-q", made).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	use := func(name string) error {
		image := filepath.Join(root, name)
		testcheck.NoError(t, exec.Command("cp", made, image).Run())
		device, err := loopdev.Bind(t.Context(), image, name, false)
		testcheck.NoError(t, err)
		failed := disk.SetUUID(t.Context(), device, own)
		testcheck.NoError(t, exec.Command("blkid").Run()) // writes its cache
		bound, err := loopdev.At(device)
		return errors.Join(failed, err, loopdev.Unbind(context.Background(), bound))
	}
	for _, name := range []string{"one", "two", "three"} {
		if err := use(name); err != nil {
			t.Error(err)
		}
	}
}
