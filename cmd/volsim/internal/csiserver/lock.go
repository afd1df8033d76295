package csiserver

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked is returned if another process has locked a directory.
var ErrLocked = errors.New("locked by another process")

// LockDir creates a directory with mode 0700 and locks it for this process until unlock. It returns
// ErrLocked if another process holds the lock. The lock ends with the process.
func LockDir(path string) (unlock func(), err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	unlock, err = lock(path, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return unlock, err
}

// lockWaiting locks an existing directory, waiting for other holders, which are short-lived.
func lockWaiting(path string) (unlock func(), err error) { return lock(path, syscall.LOCK_EX) }

func lock(path string, how int) (unlock func(), err error) {
	directory, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(directory.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), directory.Close())
	}
	return func() { _ = directory.Close() }, nil
}
