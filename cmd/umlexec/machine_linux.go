package main

import (
	"errors"
	"os"
)

// deviceMapper returns nil if this process can use a device-mapper of this machine.
func deviceMapper() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return control.Close()
}
