package blockcsitest

import (
	"os"
	"syscall"
)

// withoutFork runs what opens files of a volume, and closes them, while this process
// starts no other. A child that is not yet the program that it is to be has all files
// open that its parent had: for so long the volume could not be unmounted, although
// nobody uses it. Pods are processes of their own, so drivers do not meet this.
func withoutFork(do func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	do()
}

// ReadFile is os.ReadFile for files of volumes that are to be unmounted afterwards, in
// tests beside which programs are started.
func ReadFile(name string) (content []byte, err error) {
	withoutFork(func() { content, err = os.ReadFile(name) })
	return content, err
}

// WriteFile is os.WriteFile of a file with mode 0600, as ReadFile is os.ReadFile.
func WriteFile(name string, content []byte) (err error) {
	withoutFork(func() { err = os.WriteFile(name, content, 0o600) })
	return err
}
