//go:build linux

package faults_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/guest"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// roleVariable selects what the test that runs in a guest does; it is empty outside of a guest.
const roleVariable = "FAULTS_ROLE"

const powerGroup = "power"

// A machine loses power while thin snapshots are created of a volume with a writer. After the
// restart, what LVM had completed is complete, synced data exists, and the volume group works.
func TestPowerLoss(t *testing.T) {
	if err := guest.Probe(guest.Config{}); err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 256*mib)); err != nil {
		t.Fatal(err)
	}
	config := func(role string, out io.Writer) guest.Config {
		return guest.Config{
			Disks: []string{disk}, Stdout: out, Stderr: out, Env: append(os.Environ(), roleVariable+"="+role),
		}
	}
	from, to := io.Pipe()
	first, err := guest.Start(t.Context(), config("before", to), self, "-test.run=^TestInsideOfPowerLoss$", "-test.v")
	if err != nil {
		t.Fatal(err)
	}
	go func() { to.CloseWithError(first.Wait()) }()
	var said []string
	made := map[string]bool{}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		said = append(said, lines.Text())
		if name, ok := strings.CutPrefix(lines.Text(), "made "); ok {
			made[name] = true
		}
		if len(made) == 3 {
			first.Kill()
		}
	}
	if err := first.Wait(); !errors.Is(err, guest.ErrKilled) {
		t.Fatalf("got %v, want %v; it said:\n%s", err, guest.ErrKilled, strings.Join(said, "\n"))
	}
	var after strings.Builder
	err = guest.Run(t.Context(), config("after", &after), self, "-test.run=^TestInsideOfPowerLoss$", "-test.v")
	if err != nil {
		t.Errorf("after the power failure: %v", err)
	}
	for name := range made {
		if !strings.Contains(after.String(), "\nfound "+name+"\n") {
			t.Errorf("%s was created, and is missing", name)
		}
	}
	if t.Failed() {
		t.Logf("the guest said:\n%s", after.String())
	}
}

// TestInsideOfPowerLoss runs in the guests of TestPowerLoss.
func TestInsideOfPowerLoss(t *testing.T) {
	roles := map[string]func(*world, *lvm2.System, string){"before": beforePowerLoss, "after": afterPowerLoss}
	role := roles[os.Getenv(roleVariable)]
	if role == nil {
		t.Skip("this is a part of TestPowerLoss, which starts it in a guest")
	}
	w := &world{T: t}
	directory := t.TempDir()
	system, err := lvm2.Open(lvm2.Config{
		Directory: filepath.Join(directory, "lvm"), SystemID: systemID, Mode: lvm2.DeviceMapper,
	})
	testcheck.NoError(w, err)
	added, err := system.AddDevice(t.Context(), os.Getenv("GUEST_DISKS"))
	testcheck.NoError(w, err)
	role(w, system, added.Name)
}

func beforePowerLoss(w *world, system *lvm2.System, disk string) {
	var err error
	w.group, err = system.CreateVolumeGroup(w.Context(), lvm2.GroupSpec{Name: powerGroup, Disks: []string{disk}})
	testcheck.NoError(w, err)
	_, err = w.group.Create(w.Context(), lvm2.Spec{Name: "pool", Size: 128 * mib, Layout: lvm2.ThinPool})
	testcheck.NoError(w, err)
	folder := w.volume(lvm2.Spec{Name: "v", Layout: lvm2.Thin, Pool: "pool"})
	testcheck.NoError(w, write(filepath.Join(folder, "synced"), "kept"))
	for i := 0; ; i++ {
		name := fmt.Sprintf("s%d", i)
		_, err := w.group.Snapshot(w.Context(), "v", lvm2.Spec{Name: name})
		testcheck.NoError(w, err)
		fmt.Println("made", name)
		testcheck.NoError(w, os.WriteFile(filepath.Join(folder, "cached"), make([]byte, mib), 0o600))
	}
}

func afterPowerLoss(w *world, system *lvm2.System, _ string) {
	var err error
	w.group, err = system.VolumeGroup(w.Context(), powerGroup)
	testcheck.NoError(w, err)
	testcheck.NoError(w, w.group.Check(w.Context()))
	volumes, err := w.group.List(w.Context())
	testcheck.NoError(w, err)
	for _, v := range volumes {
		fmt.Println("found", v.Name)
	}
	device, err := w.group.Activate(w.Context(), "v")
	testcheck.NoError(w, err)
	folder := w.TempDir()
	w.mount(device, folder)
	w.wantFile(filepath.Join(folder, "synced"), "kept")
	testcheck.NoError(w, write(filepath.Join(folder, "again"), "written"))
	testcheck.NoError(w, unix.Unmount(folder, 0))
	_, err = w.group.Snapshot(w.Context(), "v", lvm2.Spec{Name: "after"})
	testcheck.NoError(w, err)
}
