//go:build amd64 || arm64

package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The size of a new terminal; the contract of runtimes has no other.
const (
	terminalRows    = 24
	terminalColumns = 80
)

// openTerminal makes a terminal of the run that the calling thread has entered. The client has the master, the command
// the other side.
func openTerminal() (master, slave *os.File, err error) {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(root)
	fd, err := inRoot(root, "/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	other, err := unlockTerminal(fd)
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	return master, os.NewFile(uintptr(other), "terminal"), nil //nolint:gosec // a descriptor
}

// unlockTerminal returns a descriptor of the other side of a terminal. It is not opened by a path, which the run could
// have replaced.
func unlockTerminal(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	size := unix.Winsize{Row: terminalRows, Col: terminalColumns}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size); err != nil {
		return -1, err
	}
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC) //nolint:gosec // a descriptor
	if errno != 0 {
		return -1, errno
	}
	return int(other), nil //nolint:gosec // a descriptor
}
