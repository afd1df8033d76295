package lvm

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/lvm2"
)

// node is the only node of the drivers in these tests.
const node = "one"

// plainDir returns a directory with a name that LVM accepts, which that of the test may not be.
func plainDir(t testing.TB) string {
	t.Helper()
	return dirIn(t, "")
}

// quickDir returns a plain directory in memory, if there is room, so that the test does not wait
// for a disk.
func quickDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	var info unix.Statfs_t
	if err := unix.Statfs(memory, &info); err != nil || int64(info.Bavail)*info.Bsize < 1<<30 {
		return dirIn(t, "")
	}
	return dirIn(t, memory)
}

func dirIn(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "volsim-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// opened are the drivers that tests have opened.
type opened struct {
	sync.Mutex
	drivers map[*blockcsi.Driver]*Driver
}

// config describes the driver, with a volume group on two disks that are files of a directory.
// Tests of volumes with these parameters are skipped if the driver does not support them.
func config(parameters map[string]string) blockcsitest.Config {
	all := &opened{drivers: map[*blockcsi.Driver]*Driver{}}
	return blockcsitest.Config{
		Nodes: []string{node}, Parameters: parameters, CopiesInUse: hasMapper(), Dir: plainDir,
		Open: func(dir string, onStep func(string)) (*blockcsi.Driver, error) {
			d, err := openIn(dir, onStep)
			if err != nil {
				return nil, err
			}
			all.Lock()
			defer all.Unlock()
			all.drivers[d.Driver] = d
			return d.Driver, nil
		},
		Stop: func(driver *blockcsi.Driver) error {
			all.Lock()
			defer all.Unlock()
			d := all.drivers[driver]
			delete(all.drivers, driver)
			return d.Close()
		},
		Close: func(dir string) error {
			d, err := openIn(dir, nil)
			if err != nil {
				return err
			}
			return d.Destroy(context.Background())
		},
	}
}

// hasMapper reports whether this machine has device-mapper.
func hasMapper() bool {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	control.Close()
	return true
}

// openIn opens the driver of a directory. It reports steps only after that.
func openIn(dir string, onStep func(string)) (*Driver, error) {
	isOpen := false
	cfg := NodeConfig{
		Name: node, Group: groupIn(dir),
		LVM: lvm2.Config{Directory: filepath.Join(dir, "lvm"), SystemID: "volsim-test"},
	}
	if onStep != nil {
		cfg.LVM.OnCommand = func(arguments []string, _ bool) {
			if isOpen {
				onStep(arguments[0])
			}
		}
	}
	for i := range 2 {
		cfg.Files = append(cfg.Files, File{Path: filepath.Join(dir, fmt.Sprintf("disk-%d", i)), SizeBytes: 8 << 30})
	}
	d, err := New(context.Background(), Config{Nodes: []NodeConfig{cfg}})
	if err != nil {
		return nil, err
	}
	for _, each := range d.pools {
		each.onStep = onStep
	}
	isOpen = true
	return d, nil
}

// groupIn returns the name of the volume group of a directory; with device-mapper it must be unique
// on the machine.
func groupIn(dir string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(dir)) // it never fails
	return fmt.Sprintf("volsim-test-%x", sum.Sum64())
}

func needLVM(t testing.TB) {
	t.Helper()
	if err := Probe(); err != nil {
		t.Skip(err)
	}
}

func TestDataSurvive(t *testing.T) {
	needLVM(t)
	if !hasMapper() {
		some := config(nil)
		some.Dir = quickDir
		blockcsitest.TestData(t, some)
		return
	}
	// A guest is slow, so each layout only runs the cases in which it differs.
	for _, each := range []struct{ layout, fsTypes, cases string }{
		{"linear", "ext4", "restore"},
		{"striped", "block", "grow in use"},
		{"raid1", "ext4", "move"},
		{"thin", "xfs", "clone of a clone"},
	} {
		t.Run(each.layout+" "+each.fsTypes, func(t *testing.T) {
			some := config(map[string]string{layoutKey: each.layout})
			some.DependentSnapshots = each.layout != "thin"
			some.FSTypes = []string{each.fsTypes}
			some.Cases = strings.FieldsFunc(each.cases, func(r rune) bool { return r == ';' })
			blockcsitest.TestData(t, some)
		})
	}
}
