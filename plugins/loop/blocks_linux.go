package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// copyChunkBytes is the number of bytes copied between two checks of the context.
const copyChunkBytes = 8 * mebibyte

// freeBytes returns the free space for ordinary users on the file system of a directory.
func freeBytes(directory string) (int64, error) {
	var info unix.Statfs_t
	if err := unix.Statfs(directory, &info); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", directory, err)
	}
	return int64(info.Bavail) * int64(info.Bsize), nil
}

// allocated returns the number of bytes that a file occupies.
func allocated(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// probeFileSystem reports whether files in a directory can share blocks, and whether they support
// direct I/O. It tries both with unnamed files.
func probeFileSystem(directory string) (reflink, directIO bool) {
	var files [2]*os.File
	for i := range files {
		number, err := unix.Open(directory, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return false, false
		}
		files[i] = os.NewFile(uintptr(number), directory)
		defer files[i].Close()
	}
	if _, err := files[0].Write(make([]byte, 4096)); err != nil {
		return false, false
	}
	reflink = cloneFile(files[1], files[0]) == nil
	flags, err := unix.FcntlInt(files[0].Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(files[0].Fd(), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	return reflink, err == nil
}

// cloneFile makes a file a copy of another at one instant by sharing all blocks.
func cloneFile(to, from *os.File) error {
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		return &fs.PathError{Op: "FICLONE", Path: to.Name(), Err: err}
	}
	return nil
}

// copySparse copies a file to an empty one. Holes stay holes. It checks ctx and calls between after
// each part.
func copySparse(ctx context.Context, to, from *os.File, between func()) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		start, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // the rest is a hole
		}
		if err != nil {
			return err
		}
		end, err := from.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for at = start; at < end; at += copyChunkBytes {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := copyRange(to, from, at, min(copyChunkBytes, end-at)); err != nil {
				return err
			}
			between()
		}
		at = end
	}
	return nil
}

// copyRange copies bytes to the same offset of another file, inside the kernel.
func copyRange(to, from *os.File, at, bytes int64) error {
	if _, err := from.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := to.Seek(at, io.SeekStart); err != nil {
		return err
	}
	_, err := io.CopyN(to, from, bytes)
	return err
}

// allocate allocates all blocks of a range of a file, and replaces shared blocks by its own.
func allocate(file *os.File, at, bytes int64, shared bool) error {
	mode := uint32(0)
	if shared {
		mode = unix.FALLOC_FL_UNSHARE_RANGE
	}
	for {
		err := unix.Fallocate(int(file.Fd()), mode, at, bytes)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP):
			return status.Errorf(codes.InvalidArgument,
				"parameters: %s is %s: not supported by the file system of the driver's Dir (copy: %v)",
				allocateKey, allocateFull, shared)
		default:
			return &fs.PathError{Op: "fallocate", Path: file.Name(), Err: err}
		}
	}
}
