package csiserver

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked says that another process has a directory.
var ErrLocked = errors.New("another process has it")

// LockDir makes a directory, for its owner alone, and keeps it for this process
// until unlock: ErrLocked if another has it. The lock ends with the process.
func LockDir(path string) (unlock func(), err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	unlock, err = lock(path, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return unlock, err
}

// lockWaiting is LockDir of a directory that is there, which others hold for moments.
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
