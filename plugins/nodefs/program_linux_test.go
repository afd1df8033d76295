package nodefs_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// TestHungProgramIsKilled checks that no child of a program survives it.
func TestHungProgramIsKilled(t *testing.T) {
	root := filepath.Join(t.TempDir(), "node")
	disk, err := nodefs.NewReal(root)
	testcheck.NoError(t, err)
	writeScript(t, filepath.Join(root, "program"))
	stop := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, stop)
	defer cancel()
	out, err := disk.Run(ctx, root+"/program", "hang")
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the reason", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(out)))
	testcheck.NoError(t, err)
	process, err := unix.PidfdOpen(child, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	testcheck.NoError(t, err)
	defer unix.Close(process) //nolint:errcheck // only read
	ended := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, 10_000); n != 1 || err != nil {
		t.Errorf("child %d is alive: %v", child, err)
	}
}
