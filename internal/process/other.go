//go:build !linux || !(amd64 || arm64)

package process

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/volsim/volsim/kubelet/container"
)

// A Runtime exists only on Linux.
type Runtime struct{ container.Runtime }

// Check returns an error: containers need Linux.
func Check() error {
	return fmt.Errorf("containers as processes on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// New returns the error of Check.
func New(Config) (*Runtime, error) { return nil, Check() }

// Close does nothing.
func (*Runtime) Close() {}
