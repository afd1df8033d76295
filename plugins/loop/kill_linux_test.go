package loop

import (
	"os"
	"testing"

	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
)

func TestKilled(t *testing.T) {
	needDevices(t)
	quick := config(nil)
	quick.Dir = quickDir
	blockcsitest.TestKilled(t, quick)
}

// quickDir returns a directory in memory, so that the test does not wait for a disk, or else any
// directory.
func quickDir(t testing.TB) string {
	const memory = "/dev/shm"
	if free, err := freeBytes(memory); err != nil || free < 1<<30 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "volsim-test-")
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
