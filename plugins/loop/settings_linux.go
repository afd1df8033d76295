package loop

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// queueFile is where the kernel shows what holds for a device's requests.
func queueFile(device, name string) string {
	return filepath.Join("/sys/block", filepath.Base(device), "queue", name)
}

// readQueue returns a number of a device.
func readQueue(device, name string) (int64, error) {
	text, err := os.ReadFile(queueFile(device, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// setQueue makes a number of a device another one; false if it was that.
func setQueue(device, name string, value int64) (bool, error) {
	is, err := readQueue(device, name)
	if err != nil || is == value {
		return false, err
	}
	return true, os.WriteFile(queueFile(device, name), []byte(strconv.FormatInt(value, 10)), 0)
}

// setDevice has a device discard and read ahead as it should; false if it did.
func setDevice(device string, discard bool, readAheadKiB int) (bool, error) {
	var bytes int64
	var err error
	if discard {
		bytes, err = readQueue(device, "discard_max_hw_bytes")
	}
	var discarding, reading bool
	if err == nil {
		discarding, err = setQueue(device, "discard_max_bytes", bytes)
	}
	reading, readErr := setQueue(device, "read_ahead_kb", int64(readAheadKiB))
	return discarding || reading, errors.Join(err, readErr)
}

// lags tells whether a device has another size than it should.
func lags(device string, sizeBytes int64) (bool, error) {
	sectors, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "size"))
	if err != nil {
		return false, err
	}
	count, err := strconv.ParseInt(strings.TrimSpace(string(sectors)), 10, 64)
	return count != sizeBytes/512, err
}
