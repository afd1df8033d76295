//go:build !linux

package blockcsi

import (
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

var errNotLinux = errors.New("block device volumes need Linux")

func usageAt(string) ([]*csi.VolumeUsage, error) { return nil, errNotLinux }

func mountsDuplicateUUIDs() bool { return false }
