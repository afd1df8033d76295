package loop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readDevice returns a number of a device that the kernel shows.
func readDevice(device, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// setReadAhead has the kernel read ahead from a device; false if it did. When the
// device is bound the next time, the kernel sets it anew.
func setReadAhead(device string, kibibytes int64) (bool, error) {
	const name = "queue/read_ahead_kb"
	is, err := readDevice(device, name)
	if err != nil || is == kibibytes {
		return false, err
	}
	return true, os.WriteFile(filepath.Join("/sys/block", filepath.Base(device), name), []byte(strconv.FormatInt(kibibytes, 10)), 0)
}

// sizeDiffers tells whether a device has another size than it should.
func sizeDiffers(device string, sizeBytes int64) (bool, error) {
	sectors, err := readDevice(device, "size")
	return sectors != sizeBytes/512, err
}
