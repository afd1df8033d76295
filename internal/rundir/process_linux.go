package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// triesMax bounds the race for the file. Each lost try was won by a process that released the
// directory.
const triesMax = 100

// openLocked opens the record and locks it until it is closed. The error matches fs.ErrNotExist for
// a missing one that must not be created.
//
// The lock is of the kind that belongs to a process: a child that a killed process has just forked
// does not keep it.
func openLocked(path string, create bool) (*os.File, error) {
	flags := os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if create {
		flags |= os.O_CREATE
	}
	for range triesMax {
		file, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		current, err := lock(file, path)
		if err == nil && current {
			return file, nil
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
	}
	return nil, &inUseError{path: filepath.Dir(path)}
}

// lock locks an open record. It reports false if the record was removed before.
func lock(file *os.File, path string) (current bool, err error) {
	var opened unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &opened); err != nil {
		return false, err
	}
	if opened.Mode&unix.S_IFMT != unix.S_IFREG || int(opened.Uid) != os.Geteuid() {
		return false, fmt.Errorf("%s is not a file of this user: use another directory", path)
	}
	wanted := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &wanted)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		holder := unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &holder); err != nil || holder.Type == unix.F_UNLCK {
			return false, err // released meanwhile
		}
		return false, &inUseError{filepath.Dir(path), int(holder.Pid)}
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	var now unix.Stat_t
	if err := unix.Lstat(path, &now); err != nil {
		return false, ignoreMissing(err)
	}
	return now.Ino == opened.Ino && now.Dev == opened.Dev, nil
}

// isPrivate reports whether a path is a directory that only this user can change.
func isPrivate(path string) (bool, error) {
	var info unix.Stat_t
	if err := unix.Lstat(path, &info); err != nil {
		return false, err
	}
	return info.Mode&unix.S_IFMT == unix.S_IFDIR && int(info.Uid) == os.Geteuid() && info.Mode&0o022 == 0, nil
}

// thisProcess returns the process that calls it.
func thisProcess() (Process, error) {
	boot, err := bootID()
	if err != nil {
		return Process{}, err
	}
	start, _, err := startOf(os.Getpid())
	return Process{PID: os.Getpid(), Start: start, Boot: boot}, err
}

// isRunning reports whether the process has not ended.
func (p Process) isRunning() (bool, error) {
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return false, err
	}
	start, ended, err := startOf(p.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return err == nil && start == p.Start && !ended, err
}

// A killed process takes a moment to end: at most endPolls times endPollMilliseconds.
const (
	endPolls            = 50
	endPollMilliseconds = 10
)

// endsSoon waits briefly for a process to end, as one that was just killed does. It reports whether
// the process has ended.
func endsSoon(pid int) bool {
	if pid <= 0 {
		return false
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(process)
	poll := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	for range endPolls { // a signal may cut one short
		if count, err := unix.Poll(poll, endPollMilliseconds); err == nil && count > 0 {
			return true
		}
	}
	return false
}

// bootID returns the kernel's ID of the boot.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// startOf returns when a process started, and whether it has ended and only its parent has not
// noticed yet.
//
// Upstream: proc_pid_stat(5), fields 3 and 22.
func startOf(pid int) (start uint64, ended bool, err error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false, err
	}
	// The second field is the name of the program in parentheses. It may contain anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return 0, false, fmt.Errorf("%s has only %d fields", name, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0] == "Z" || fields[0] == "X", err
}
