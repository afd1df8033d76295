//go:build !linux

package guest

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
)

// A Guest cannot exist on this system.
type Guest struct{}

// Main returns at once.
func Main() {}

// Probe returns ErrUnavailable.
func Probe(Config) error {
	return fmt.Errorf("%w: User-Mode Linux requires Linux, this is %s", ErrUnavailable, runtime.GOOS)
}

// HasRaceDetector reports whether a program was built with the race detector. Here it always
// returns false.
func HasRaceDetector(string) bool { return false }

// Run returns ErrUnavailable.
func Run(context.Context, Config, ...string) error { return Probe(Config{}) }

// Start returns ErrUnavailable.
func Start(context.Context, Config, ...string) (*Guest, error) { return nil, Probe(Config{}) }

// Kill does nothing.
func (*Guest) Kill() {}

// Signal does nothing.
func (*Guest) Signal(syscall.Signal) {}

// Wait returns ErrUnavailable.
func (*Guest) Wait() error { return Probe(Config{}) }
