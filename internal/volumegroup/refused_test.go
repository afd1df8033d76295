package volumegroup_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/plugins/lvm"
)

// TestRefusedDisks has disks of real LVM that are not empty, and one with two names. They are refused
// with what was found, and none changes.
func TestRefusedDisks(t *testing.T) {
	if err := lvm.Probe(); err != nil {
		t.Skip(err)
	}
	n, other := newLVM(t), newLVM(t)
	ctx := t.Context()
	device := func(name string) string { return filepath.Join(n.root, name) }
	for _, name := range []string{"/dev/empty", "/dev/ext4", "/dev/swap", "/dev/table", "/dev/mounted", "/dev/foreign", "/dev/used", "/dev/data", "/dev/wiped"} {
		n.addDisk(name)
	}
	n.format("/dev/ext4", "ext4")
	if out, err := exec.Command("mkswap", device("/dev/swap")).CombinedOutput(); err != nil {
		t.Fatalf("mkswap: %v\n%s", err, out)
	}
	writeTable(t, device("/dev/table"))
	writeAt(t, device("/dev/data"), []byte("not a file system"), 4000)
	n.format("/dev/wiped", "ext4")
	if out, err := exec.Command("wipefs", "-a", device("/dev/wiped")).CombinedOutput(); err != nil {
		t.Fatalf("wipefs: %v\n%s", err, out)
	}
	testcheck.NoError(t, n.disk.MkdirAll(n.root+"/mnt"), n.disk.FormatAndMount(ctx, device("/dev/mounted"), n.root+"/mnt", "ext4", nil))
	// A disk of another machine's volume group.
	testcheck.NoError(t, other.disk.MkdirAll(other.root+"/dev"), other.disk.WriteFile(other.root+"/dev/sdb", nil))
	testcheck.NoError(t, other.bind(n.device("/dev/foreign"), "/dev/sdb"))
	if r, err := other.Ensure(ctx, "theirs", []string{"/dev/sdb"}); err != nil || r.Group == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := n.Ensure(ctx, "slow", []string{"/dev/used"}); err != nil || r.Group == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	// A second name of a disk.
	testcheck.NoError(t, n.disk.WriteFile(device("/dev/again"), nil), n.bind(n.device("/dev/empty"), "/dev/again"))

	wants := map[string]string{
		"/dev/ext4":    "is not empty: has a signature of ext4",
		"/dev/swap":    "is not empty: has a signature of swap",
		"/dev/table":   "is not empty: has a signature of dos",
		"/dev/mounted": "is mounted at /mnt",
		"/dev/foreign": fmt.Sprintf("belongs to volume group volsim-test-%d-theirs of another system", os.Getpid()),
		"/dev/used":    "belongs to volume group slow",
		"/dev/again":   "is the same disk as /dev/empty",
		"/dev/data":    "is not empty: has data without a known signature",
		"/dev/wiped":   "is not empty: has data without a known signature",
	}
	names := []string{"/dev/ext4", "/dev/swap", "/dev/table", "/dev/mounted", "/dev/foreign", "/dev/used", "/dev/empty", "/dev/again", "/dev/data", "/dev/wiped"}
	before := map[string][]byte{"/dev/ext4": nil, "/dev/swap": nil, "/dev/table": nil, "/dev/foreign": nil, "/dev/data": nil, "/dev/wiped": nil}
	for name := range before {
		before[name] = n.contents(name)
	}
	for range 2 { // again when there is a group
		r, err := n.Ensure(ctx, "fast", names)
		testcheck.NoError(t, err)
		found := map[string]string{}
		for i, d := range r.Disks {
			if d.Path != names[i] {
				t.Errorf("disk %q, want %q", d.Path, names[i])
			}
			if d.State == volumegroup.Refused {
				found[d.Path] = d.Message
			}
		}
		if diff := cmp.Diff(wants, found); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		if r.Size != 60<<20 || len(r.Disks) != len(names) {
			t.Errorf("report %+v", r)
		}
	}
	for name, content := range before {
		if !bytes.Equal(content, n.contents(name)) {
			t.Errorf("the refused disk %s has changed", name)
		}
	}
	testcheck.NoError(t, n.disk.Unmount(n.root+"/mnt"), n.Destroy(ctx, "fast"), n.Destroy(ctx, "slow"), other.Destroy(ctx, "theirs"))
}

// writeTable writes a partition table with one partition, as fdisk does.
func writeTable(t *testing.T, device string) {
	t.Helper()
	sector := make([]byte, 512)
	entry := sector[446:]
	entry[4] = 0x83                                 // Linux
	binary.LittleEndian.PutUint32(entry[8:], 2048)  // start
	binary.LittleEndian.PutUint32(entry[12:], 4096) // sectors
	sector[510], sector[511] = 0x55, 0xaa
	writeAt(t, device, sector, 0)
}

// writeAt writes data to a device.
func writeAt(t *testing.T, device string, data []byte, offset int64) {
	t.Helper()
	file, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	testcheck.NoError(t, err)
	_, err = file.WriteAt(data, offset)
	testcheck.NoError(t, err, file.Close())
}

// TestReleasedDisks gives a disk to another class after a volume on it had data. The disk of a
// manager that was killed while it released it is taken, too.
func TestReleasedDisks(t *testing.T) {
	if err := lvm.Probe(); err != nil {
		t.Skip(err)
	}
	n, ctx := newLVM(t), t.Context()
	n.addDisk("/dev/sdb")
	for _, class := range []string{"first", "second"} {
		if r, err := n.Ensure(ctx, class, []string{"/dev/sdb"}); err != nil || r.Size != 60<<20 {
			t.Fatalf("class %s: %+v, %v", class, r, err)
		}
		v, err := n.Create(ctx, class, volumegroup.Spec{Name: "pvc-1", Size: 4 << 20, Owner: "default/web"})
		testcheck.NoError(t, err)
		writeAt(t, n.root+v.Path, bytes.Repeat([]byte("mine"), 1<<20), 0)
		testcheck.NoError(t, n.Remove(ctx, class, "pvc-1"), n.Destroy(ctx, class))
	}
	n.addDisk("/dev/sdc")
	if out, err := exec.Command("pvcreate", "-q", n.device("/dev/sdc")).CombinedOutput(); err != nil {
		t.Fatalf("pvcreate: %v\n%s", err, out)
	}
	if r, err := n.Ensure(ctx, "third", []string{"/dev/sdc"}); err != nil || r.Size != 60<<20 {
		t.Errorf("a physical volume without a group: %+v, %v", r, err)
	}
	testcheck.NoError(t, n.Destroy(ctx, "third"))
}
