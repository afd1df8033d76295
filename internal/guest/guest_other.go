//go:build !linux

package guest

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
)

// Guest is never had here.
type Guest struct{}

// Main returns.
func Main() {}

// Missing gives ErrMissing.
func Missing(Config) error {
	return fmt.Errorf("%w: User-Mode Linux is for Linux, this is %s", ErrMissing, runtime.GOOS)
}

// Raced is false.
func Raced(string) bool { return false }

// Run gives ErrMissing.
func Run(context.Context, Config, ...string) error { return Missing(Config{}) }

// Start gives ErrMissing.
func Start(context.Context, Config, ...string) (*Guest, error) { return nil, Missing(Config{}) }

// Kill does nothing.
func (*Guest) Kill() {}

// Signal does nothing.
func (*Guest) Signal(syscall.Signal) {}

// Wait gives ErrMissing.
func (*Guest) Wait() error { return Missing(Config{}) }
