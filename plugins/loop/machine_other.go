//go:build !linux

package loop

import (
	"context"
	"fmt"
	"runtime"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Probe returns an error: loop devices are Linux's.
func Probe() error {
	return fmt.Errorf("real loop devices need Linux, this is %s: use the array driver, or a Linux virtual machine", runtime.GOOS)
}

func attachLoop(context.Context, string, string, bool) (string, error) { return "", Probe() }

func detachLoop(context.Context, boundLoop) error { return Probe() }

func boundLoops(func(string) bool) ([]boundLoop, error) { return nil, nil }

func mountPoints(string) ([]string, error) { return nil, nil }

func freeBytes(string) (int64, error) { return 0, Probe() }

func usageAt(string) ([]*csi.VolumeUsage, error) { return nil, Probe() }
