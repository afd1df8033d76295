//go:build !linux

package health

import "errors"

var errNotLinux = errors.New("block device volumes need Linux")

func lookAt(string) (device, error) { return device{}, errNotLinux }

func readEnds(string, int64) error { return errNotLinux }

func mountsOf(string) ([]place, error) { return nil, errNotLinux }

func answers(string) error { return errNotLinux }
