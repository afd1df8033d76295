//go:build !linux

package loop

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// Probe returns an error, because loop devices need Linux.
func Probe() error {
	return fmt.Errorf("real loop devices need Linux, this is %s: use the array driver, or a Linux virtual machine",
		runtime.GOOS)
}

func freeBytes(string) (int64, error) { return 0, Probe() }

func allocated(info fs.FileInfo) int64 { return info.Size() }

func probeFileSystem(string) (reflink, directIO bool) { return false, false }

func cloneFile(_, _ *os.File) error { return Probe() }

func copySparse(context.Context, *os.File, *os.File, func()) error { return Probe() }

func allocate(*os.File, int64, int64, bool) error { return Probe() }

func setReadAhead(string, int64) (bool, error) { return false, Probe() }

func sizeDiffers(string, int64) (bool, error) { return false, Probe() }
