package lvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/filelock"
)

// mapperControl is the control node of device-mapper.
const mapperControl = "/dev/mapper/control"

// hasDeviceMapper reports whether the kernel has device-mapper and this process may use it.
func hasDeviceMapper() bool {
	control, err := os.OpenFile(mapperControl, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return control.Close() == nil
}

// ownGroup keeps signals of the terminal from a command.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// lockFile opens a file and locks it until it is closed or the process ends.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = filelock.TryLock(file)
	if errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%w by another System: %w", ErrInUse, err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// awaitUnlocked waits until no other process has locked a file.
func awaitUnlocked(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // LVM removes files that it has unlocked
	}
	if err != nil {
		return err
	}
	return errors.Join(filelock.Lock(ctx, file), file.Close())
}

// readStart fills a buffer from the start of a file or a device, and returns the numbers of a file.
// It avoids os.File because it is called often.
func readStart(path string, buffer []byte) (inode, fileSystem uint64, err error) {
	file, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	var stat unix.Stat_t
	err = unix.Fstat(file, &stat)
	for length := 0; err == nil && length < len(buffer); {
		var n int
		n, err = unix.Pread(file, buffer[length:], int64(length))
		if length += n; n == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	return stat.Ino, stat.Dev, errors.Join(err, unix.Close(file))
}

// makeNode creates another node of a device.
func makeNode(path, device string) error {
	number, err := blockdev.NumberOf(device)
	if err != nil {
		return err
	}
	return remakeNode(path, number)
}

// remakeNode creates a block device node and replaces what exists there.
func remakeNode(path string, number blockdev.Number) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(number.Major, number.Minor))); err != nil {
		return &fs.PathError{Op: "mknod", Path: path, Err: err}
	}
	return nil
}

// isHole reports whether a file has no data at all.
func isHole(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, errors.Join(err, fmt.Errorf("%s: %w: it is no file", path, ErrNotEmpty))
	}
	_, err = unix.Seek(int(file.Fd()), 0, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return true, nil
	}
	return false, err
}

// zeroRange writes zeros to a range of a block device.
func zeroRange(device string, start, size int64) error {
	return changeRange(device, "BLKZEROOUT", unix.BLKZEROOUT, start, size)
}

// discardRange discards a range of a block device.
func discardRange(device string, start, size int64) error {
	return changeRange(device, "BLKDISCARD", unix.BLKDISCARD, start, size)
}

func changeRange(device, name string, request uintptr, start, size int64) error {
	file, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	extent := [2]uint64{uint64(start), uint64(size)}
	if err := ioctl(file, request, unsafe.Pointer(&extent)); err != nil {
		return &fs.PathError{Op: name, Path: device, Err: err}
	}
	return nil
}

// partitionsOf returns the partitions of a disk that the kernel knows. It is called often, and a
// disk may have hundreds, so it reads no more of each than necessary.
func partitionsOf(disk string) ([]partition, error) {
	number, err := blockdev.NumberOf(disk)
	if err != nil {
		return nil, err
	}
	path, err := number.SysfsDirectory()
	if err != nil {
		return nil, err
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	names, err := directory.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var found []partition
	for _, name := range names {
		// Partitions are named "loop7p3", or "sda3" if the disk's name does not end in a digit.
		digits, of := strings.CutPrefix(name, filepath.Base(path))
		number, err := strconv.Atoi(strings.TrimPrefix(digits, "p"))
		if !of || err != nil {
			continue
		}
		each := partition{number: number, device: "/dev/" + name}
		each.start, err = readNumber(directory, name+"/start")
		if err == nil {
			each.size, err = readNumber(directory, name+"/size")
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		each.start, each.size = each.start*sectorSize, each.size*sectorSize
		found = append(found, each)
	}
	return found, nil
}

// partitionNode returns the node of a partition of a loop device. Only loop devices get partitions
// of ours.
func partitionNode(disk string, number int) string { return disk + "p" + strconv.Itoa(number) }

// partitionAt returns the partition of a node.
func partitionAt(node string) (partition, error) {
	name := filepath.Base(node)
	at := strings.LastIndexByte(name, 'p')
	number, err := strconv.Atoi(name[at+1:])
	if err != nil || at < 0 {
		return partition{}, fmt.Errorf("%s is no partition of a loop device", node)
	}
	directory, err := os.Open(filepath.Join("/sys/block", name[:at], name))
	if err != nil {
		return partition{}, err
	}
	defer directory.Close()
	start, err := readNumber(directory, "start")
	if err != nil {
		return partition{}, err
	}
	size, err := readNumber(directory, "size")
	return partition{number: number, device: node, start: start * sectorSize, size: size * sectorSize}, err
}

// readNumber reads a file below a directory that holds only a number.
func readNumber(directory *os.File, name string) (int64, error) {
	file, err := unix.Openat(int(directory.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(file)
	var text [32]byte
	count, err := unix.Read(file, text[:])
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text[:count])), 10, 64)
}

func addPartition(disk string, p partition) error {
	return changePartition(disk, unix.BLKPG_ADD_PARTITION, p)
}

func resizePartition(disk string, p partition) error {
	return changePartition(disk, unix.BLKPG_RESIZE_PARTITION, p)
}

// deletePartition removes a partition. It returns ErrInUse if it is open. A missing partition is
// not an error.
func deletePartition(disk string, number int) error {
	err := changePartition(disk, unix.BLKPG_DEL_PARTITION, partition{number: number})
	if errors.Is(err, unix.ENXIO) {
		return nil
	}
	return err
}

func changePartition(disk string, operation int32, p partition) error {
	file, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer file.Close()
	change := unix.BlkpgPartition{Start: p.start, Length: p.size, Pno: int32(p.number)}
	argument := unix.BlkpgIoctlArg{
		Op: operation, Datalen: int32(unsafe.Sizeof(change)), Data: (*byte)(unsafe.Pointer(&change)),
	}
	err = ioctl(file, unix.BLKPG, unsafe.Pointer(&argument))
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return fmt.Errorf("partition %d of %s: %w", p.number, disk, err)
	}
	return nil
}

func ioctl(file *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, number := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(argument)); number != 0 {
		return number
	}
	return nil
}
