//go:build unix

package filelock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process, or another open file of this process, holds the lock.
var ErrLocked = errors.New("locked")

// TryLock locks an open file exclusively until it is closed, or returns ErrLocked.
func TryLock(file *os.File) error {
	err := flock(file.Fd(), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return lockedError(file)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return nil
}

// Lock works like TryLock, but waits for other holders until ctx ends. The error is then ErrLocked
// and the cause of the end.
func Lock(ctx context.Context, file *os.File) error {
	if err := TryLock(file); !errors.Is(err, ErrLocked) {
		return err
	}
	if ctx.Err() != nil {
		return waitError(ctx, file)
	}
	// The system call cannot be interrupted, so it has a descriptor of its own.
	waiting, err := unix.Dup(int(file.Fd()))
	if err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	unix.CloseOnExec(waiting)
	locked := make(chan error, 1)
	go func() {
		err := flock(uintptr(waiting), unix.LOCK_EX)
		locked <- errors.Join(err, unix.Close(waiting)) // file keeps the lock unless it is closed
	}()
	select {
	case err := <-locked:
		if err != nil {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		return nil
	case <-ctx.Done():
		return waitError(ctx, file)
	}
}

func flock(file uintptr, how int) error {
	for {
		if err := unix.Flock(int(file), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func waitError(ctx context.Context, file *os.File) error {
	return fmt.Errorf("%w: gave up waiting: %w", lockedError(file), context.Cause(ctx))
}

// lockedError returns ErrLocked with the file and the process that holds the lock.
func lockedError(file *os.File) error {
	holder := "another process"
	if process := holderOf(file); process > 0 {
		holder = fmt.Sprintf("process %d", process)
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", process))
		if text := strings.TrimSpace(string(name)); err == nil && text != "" {
			holder += fmt.Sprintf(" (%s)", text)
		}
		if process == os.Getpid() {
			holder = "this process"
		}
	}
	return fmt.Errorf("%s is %w by %s", file.Name(), ErrLocked, holder)
}

// holderOf returns the process that holds a file's lock, or 0 if it is unknown.
func holderOf(file *os.File) int {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	table, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer table.Close()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		// 1: FLOCK ADVISORY WRITE 13361 fe:00:9986225 0 EOF; waiting ones have "->" in front.
		words := strings.Fields(lines.Text())
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != lockedFile(stat) {
			continue
		}
		if process, err := strconv.Atoi(words[4]); err == nil && process > 0 {
			return process
		}
	}
	return 0
}

// lockedFile returns the numbers of a file in the form of /proc/locks.
func lockedFile(stat *syscall.Stat_t) string {
	device := uint64(stat.Dev)
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), stat.Ino)
}
