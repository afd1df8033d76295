package csiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/volsim/volsim/internal/filelock"
)

// ErrLocked is returned if another process has locked a directory.
var ErrLocked = filelock.ErrLocked

const (
	// lockFile is the file in a state directory that is locked. The directory itself may also
	// contain sockets, whose servers lock it while they start.
	lockFile = "lock"
	// stateLockTimeout is how long a child of a killed driver may keep its locks: until it has
	// started its program.
	stateLockTimeout = time.Second
	// socketLockTimeout is how long other processes may take to check the sockets of a directory.
	socketLockTimeout = 4 * dialTimeout
)

// LockDir creates a directory with mode 0700 and locks it for this process until unlock. It returns
// ErrLocked if another process holds the lock. The lock ends with the process.
func LockDir(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	file, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return lock(ctx, file, stateLockTimeout)
}

// lockSockets locks an existing directory while its sockets are checked. It waits briefly for other
// processes that do the same.
func lockSockets(ctx context.Context, path string) (unlock func(), err error) {
	directory, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return lock(ctx, directory, socketLockTimeout)
}

// lock locks a file until unlock. It waits at most for a time.
func lock(ctx context.Context, file *os.File, most time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not unlocked within %v", most))
	defer cancel()
	if err := filelock.Lock(ctx, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
