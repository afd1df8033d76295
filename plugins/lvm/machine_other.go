//go:build !linux

package lvm

import (
	"fmt"
	"runtime"
)

// Probe returns an error: LVM is Linux's.
func Probe() error {
	return fmt.Errorf("LVM needs Linux, this is %s: use the array driver, or a Linux virtual machine", runtime.GOOS)
}
