package loop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readDevice reads a number from a device's directory in sysfs.
func readDevice(device, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// setReadAhead sets the kernel's read-ahead of a device. It reports whether that changed anything.
// The kernel resets it when the device is bound again.
func setReadAhead(device string, kibibytes int64) (bool, error) {
	const name = "queue/read_ahead_kb"
	current, err := readDevice(device, name)
	if err != nil || current == kibibytes {
		return false, err
	}
	return true, os.WriteFile(filepath.Join("/sys/block", filepath.Base(device), name),
		[]byte(strconv.FormatInt(kibibytes, 10)), 0)
}

// sizeDiffers reports whether a device's size differs from sizeBytes.
func sizeDiffers(device string, sizeBytes int64) (bool, error) {
	sectors, err := readDevice(device, "size")
	return sectors != sizeBytes/512, err
}
