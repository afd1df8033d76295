package loop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
)

// config describes the driver, with its volumes in "images" of a directory.
func config(parameters map[string]string) blockcsitest.Config {
	open := func(dir string, onStep func(string)) (*Driver, error) {
		d, err := New(Config{Dir: filepath.Join(dir, "images")})
		if err == nil {
			d.pool.onStep = onStep
		}
		return d, err
	}
	return blockcsitest.Config{
		Nodes: []string{"one", "two"}, Parameters: parameters, Settings: map[string]string{
			readAheadKey: "512", discardKey: "false",
		},
		Open: func(dir string, onStep func(string)) (*blockcsi.Driver, error) {
			d, err := open(dir, onStep)
			if err != nil {
				return nil, err
			}
			return d.Driver, nil
		},
		Close: func(dir string) error {
			d, err := open(dir, nil)
			if err != nil {
				return err
			}
			return d.Close()
		},
	}
}

func needDevices(t testing.TB) {
	t.Helper()
	if err := Probe(); err != nil {
		t.Skip(err)
	}
}

// store mounts a new file system in a sparse file and returns its path.
func store(t testing.TB, fsType string, bytes int64) string {
	t.Helper()
	needDevices(t)
	if _, err := exec.LookPath("mkfs." + fsType); err != nil {
		t.Skipf("mkfs.%s is not installed", fsType)
	}
	dir := t.TempDir()
	file, place := filepath.Join(dir, "store"), filepath.Join(dir, "mounted")
	for _, step := range []func() error{
		func() error { return os.WriteFile(file, nil, 0o600) },
		func() error { return os.Truncate(file, bytes) },
		func() error { return os.Mkdir(place, 0o700) },
		exec.Command("mkfs."+fsType, file).Run,
		exec.Command("mount", "-o", "loop", file, place).Run,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", place).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return place
}

// on stores the volumes in a new file system whose files share blocks.
func on(t *testing.T, fsType string) blockcsitest.Config {
	t.Helper()
	top := store(t, fsType, 8<<30)
	if shared, _ := probeFileSystem(top); !shared {
		t.Skipf("mkfs.%s makes file systems without shared blocks", fsType)
	}
	instant := config(nil)
	instant.CopiesInUse = true
	instant.Dir = func(t testing.TB) string {
		dir, err := os.MkdirTemp(top, "")
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return instant
}

func TestDataSurvive(t *testing.T) {
	needDevices(t)
	t.Run("copied", func(t *testing.T) { blockcsitest.TestData(t, config(nil)) })
	t.Run("shared by xfs", func(t *testing.T) { blockcsitest.TestData(t, on(t, "xfs")) })
	t.Run("shared by btrfs", func(t *testing.T) {
		instant := on(t, "btrfs")
		instant.FSTypes = []string{"ext4", "block"}
		blockcsitest.TestData(t, instant)
	})
}

func TestDataWithDirectIO(t *testing.T) {
	needDevices(t)
	if _, direct := probeFileSystem(t.TempDir()); !direct {
		t.Skip("no direct I/O on the file system of the test's directory")
	}
	direct := config(map[string]string{directIOKey: "true"})
	direct.FSTypes = []string{"ext4", "xfs"}
	blockcsitest.TestData(t, direct)
}
