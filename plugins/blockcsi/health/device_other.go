//go:build !linux

package health

import "errors"

var errNotLinux = errors.New("block device volumes need Linux")

func inspectDevice(string) (device, error) { return device{}, errNotLinux }

func readEnds(string, int64) error { return errNotLinux }

func mountsOf(string) ([]mountPoint, error) { return nil, errNotLinux }

func checkResponds(string) error { return errNotLinux }
