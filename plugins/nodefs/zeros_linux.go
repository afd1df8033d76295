package nodefs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteZeros implements FS. It lets the file system allocate the blocks without writing them, where
// it can.
func (r *Real) WriteZeros(name string, size int64) error {
	if size < 0 {
		return pathError("write", name, syscall.EINVAL)
	}
	place, err := r.resolveEntry(name)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(place, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return classify(err)
	}
	err = file.Chmod(0o640) // whatever the umask
	if err == nil && size > 0 {
		err = pathError("allocate", name, unix.Fallocate(int(file.Fd()), 0, 0, size))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = writeZeros(file, size)
	}
	return classify(errors.Join(err, file.Close()))
}

// writeZeros writes zeros to a new file.
func writeZeros(file *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for size > 0 {
		n, err := file.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
