package lvm2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// copyChunk is the number of bytes copied between two checks of the context.
const copyChunk = 1 << 20

// copyRange copies a range of a file to a range of the same length in the same or another file.
// Holes stay holes. If the file system supports it, both share blocks and the copy is immediate.
func copyRange(ctx context.Context, from string, fromStart int64, to string, toStart, size int64) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer target.Close()
	share := unix.FileCloneRange{
		Src_fd: int64(source.Fd()), Src_offset: uint64(fromStart), Src_length: uint64(size),
		Dest_offset: uint64(toStart),
	}
	if unix.IoctlFileCloneRange(int(target.Fd()), &share) == nil {
		return target.Sync()
	}
	if err := unix.Fallocate(int(target.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, toStart,
		size); err != nil {
		return &fs.PathError{Op: "punch hole", Path: to, Err: err}
	}
	if err := copyData(ctx, source, fromStart, target, toStart, size); err != nil {
		return fmt.Errorf("copy %s at %d: %w", from, fromStart, err)
	}
	return target.Sync()
}

// copyData copies the data in a range and skips holes.
func copyData(ctx context.Context, source *os.File, fromStart int64, target *os.File, toStart, size int64) error {
	end := fromStart + size
	for at := fromStart; at < end; {
		data, err := unix.Seek(int(source.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && data >= end {
			return nil // a hole up to the end
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(source.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		at = min(hole, end)
		if err := copyBytes(ctx, source, data, target, toStart+data-fromStart, at-data); err != nil {
			return err
		}
	}
	return nil
}

func copyBytes(ctx context.Context, source *os.File, fromStart int64, target *os.File, toStart, size int64) error {
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		count, err := unix.CopyFileRange(int(source.Fd()), &fromStart, int(target.Fd()), &toStart,
			int(min(size, copyChunk)), 0)
		if err != nil {
			return err
		}
		if count == 0 {
			return io.ErrUnexpectedEOF
		}
		size -= int64(count)
	}
	return nil
}

// copyDevice copies the first size bytes of a block device to another one. If the target reads as
// zeros, it does not write zeros.
func copyDevice(ctx context.Context, from, to string, size int64, zeroed bool) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer target.Close()
	zeros, chunk := make([]byte, copyChunk), make([]byte, copyChunk)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := chunk[:min(copyChunk, size-at)]
		if _, err := source.ReadAt(part, at); err != nil {
			return err
		}
		if !zeroed || !bytes.Equal(part, zeros[:len(part)]) {
			if _, err := target.WriteAt(part, at); err != nil {
				return err
			}
		}
		at += int64(len(part))
	}
	return target.Sync()
}
