package notebook

import (
	"os"
	"syscall"
	"unsafe"
)

// unreadBytes returns the number of unread bytes in a pipe, or 0 if the file is not a pipe.
func unreadBytes(f *os.File) int {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return 0
	}
	var n int32
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}
