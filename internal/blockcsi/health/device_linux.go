package health

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/blockdev"
)

const (
	sectorBytes = 512
	blockBytes  = 4096
)

// inspectDevice returns the kernel's information about a device.
func inspectDevice(path string) (device, error) {
	deviceNumber, err := blockdev.NumberOf(path)
	if err != nil {
		return device{}, err
	}
	directory, err := deviceNumber.SysfsDirectory()
	if err != nil {
		return device{}, fmt.Errorf("%s: the device no longer exists", path)
	}
	sectors, err := number(filepath.Join(directory, "size"))
	if err != nil {
		return device{}, err
	}
	result := device{sizeBytes: sectors * sectorBytes}
	result.fsErrors, err = number(filepath.Join("/sys/fs/ext4", filepath.Base(directory), "errors_count"))
	if errors.Is(err, fs.ErrNotExist) { // not ext4, or not mounted
		err = nil
	}
	return result, err
}

// number reads a file that holds only a number.
func number(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// readEnds reads the first and the last block of a device, bypassing the page cache.
func readEnds(path string, sizeBytes int64) error {
	node, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer node.Close()
	block := aligned(blockBytes)
	for _, at := range []int64{0, (sizeBytes - blockBytes) / blockBytes * blockBytes} {
		if _, err := node.ReadAt(block, max(at, 0)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// aligned returns memory that is aligned for direct I/O.
func aligned(bytes int) []byte {
	memory := make([]byte, 2*bytes)
	over := int(uintptr(unsafe.Pointer(&memory[0])) % uintptr(bytes))
	return memory[bytes-over : 2*bytes-over]
}

// mountsOf returns the mounts of a device's file system.
func mountsOf(path string) ([]mountPoint, error) {
	rows, err := blockdev.Mounts(path)
	var all []mountPoint
	for _, row := range rows {
		options := strings.Split(row.VFSOptions, ",")
		all = append(all, mountPoint{
			path:           filepath.Clean(row.Mountpoint),
			readOnly:       slices.Contains(strings.Split(row.Options, ","), "ro"),
			deviceReadOnly: slices.Contains(options, "ro"),
			broken:         slices.Contains(options, "emergency_ro") || slices.Contains(options, "shutdown"),
		})
	}
	return all, err
}

// checkResponds calls statfs on a mounted file system.
func checkResponds(at string) error {
	var info unix.Statfs_t
	return unix.Statfs(at, &info)
}
