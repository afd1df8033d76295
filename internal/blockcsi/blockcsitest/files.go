package blockcsitest

import (
	"os"
	"syscall"
)

// withoutFork runs a function that opens and closes files of a volume while this process starts no
// child. Between fork and exec a child holds all open files of its parent, so the volume could not
// be unmounted although it is unused. Pods are separate processes, so this does not affect drivers.
func withoutFork(do func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	do()
}

// ReadFile works like os.ReadFile for files of volumes that will be unmounted, in tests that start
// programs concurrently.
func ReadFile(name string) (content []byte, err error) {
	withoutFork(func() { content, err = os.ReadFile(name) })
	return content, err
}

// WriteFile works like os.WriteFile with mode 0600, with the same guarantee as ReadFile.
func WriteFile(name string, content []byte) (err error) {
	withoutFork(func() { err = os.WriteFile(name, content, 0o600) })
	return err
}
