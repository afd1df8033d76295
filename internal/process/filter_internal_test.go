//go:build linux && (amd64 || arm64)

package process

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilter makes system calls in a thread with the filter. Each would have another result without it.
func TestFilter(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	type call struct {
		name     string
		number   uintptr
		argument uintptr
		want     unix.Errno
	}
	calls := []call{
		{"add_key", unix.SYS_ADD_KEY, 0, unix.EPERM},
		{"keyctl", unix.SYS_KEYCTL, 0, unix.EPERM},
		{"bpf", unix.SYS_BPF, 0, unix.EPERM},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, 0, unix.EPERM},
		{"socket vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.EPERM},
		{"socket alg", unix.SYS_SOCKET, unix.AF_ALG, unix.EPERM},
		{"unshare user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, unix.EPERM},
		{"unshare user and mounts", unix.SYS_UNSHARE, unix.CLONE_NEWUSER | unix.CLONE_NEWNS, unix.EPERM},
		{"clone user", unix.SYS_CLONE, unix.CLONE_NEWUSER, unix.EPERM},
		{"clone3", unix.SYS_CLONE3, 0, unix.ENOSYS},
		{"another ABI", x32Bit | unix.SYS_GETPID, 0, unix.ENOSYS},
		{"getpid", unix.SYS_GETPID, 0, 0},
		{"unshare nothing", unix.SYS_UNSHARE, 0, 0},
	}
	results := make(chan []unix.Errno)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its filter
		if err := filterSystemCalls(); err != nil {
			t.Error(err)
		}
		var got []unix.Errno
		for _, c := range calls {
			_, _, errno := unix.RawSyscall(c.number, c.argument, 0, 0)
			got = append(got, errno)
		}
		results <- got
	}()
	for i, got := range <-results {
		if got != calls[i].want {
			t.Errorf("%s: %v, want %v", calls[i].name, got, calls[i].want)
		}
	}
}
