//go:build unix

package filelock_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/filelock"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestLockEndsWithTheFile(t *testing.T) {
	path := t.TempDir()
	first, second := open(t, path), open(t, path)
	if err := filelock.TryLock(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.TryLock(second); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- filelock.Lock(t.Context(), second) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Errorf("lock after the first file was closed: %v", err)
	}
	if err := filelock.TryLock(open(t, path)); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("the lock did not last: %v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	path := t.TempDir()
	first, second := open(t, path), open(t, path)
	if err := filelock.TryLock(first); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]error{limited: context.DeadlineExceeded, canceled: context.Canceled} {
		err := filelock.Lock(ctx, second)
		if !errors.Is(err, filelock.ErrLocked) || !errors.Is(err, want) {
			t.Errorf("got %v, want ErrLocked and %v", err, want)
		}
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// The abandoned wait gets the lock at most for a moment.
	if err := filelock.Lock(t.Context(), open(t, path)); err != nil {
		t.Error(err)
	}
}

func TestErrorNamesTheHolder(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	holder := exec.Command(flock, "--no-fork", path, "cat")
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); _ = holder.Wait() })
	if _, err := input.Write([]byte{'.'}); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil { // it runs cat, so it has the lock
		t.Fatal(err)
	}
	err = filelock.TryLock(open(t, path))
	if want := "by process " + strconv.Itoa(holder.Process.Pid) + " (cat)"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
