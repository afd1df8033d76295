//go:build !linux

package lvm

import (
	"fmt"
	"runtime"
)

// Probe returns an error, because LVM needs Linux.
func Probe() error {
	return fmt.Errorf("LVM needs Linux, this is %s: use the array driver, or a Linux virtual machine", runtime.GOOS)
}
