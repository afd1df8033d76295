//go:build !linux

package blockcsi

import (
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

var errNotLinux = errors.New("volumes that are devices need Linux")

type frozen struct{}

func (*frozen) thaw() error { return nil }

func freezeDevice(string) (*frozen, bool, error) { return nil, false, errNotLinux }

func thawDevice(string) (bool, error) { return false, nil }

func flushDevice(string) error { return errNotLinux }

func isOpen(string) (bool, error) { return false, nil }

// MountPoints returns none.
func MountPoints(string) ([]string, error) { return nil, nil }

func usageAt(string) ([]*csi.VolumeUsage, error) { return nil, errNotLinux }

func mountsTwins() bool { return false }
