package guest

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// kernelName is the kernel's program in Debian's package user-mode-linux.
const kernelName = "linux.uml"

// Probe returns nil if a guest can run on this machine, otherwise an ErrUnavailable that says what
// is missing.
func Probe(c Config) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: User-Mode Linux requires amd64, this is %s", ErrUnavailable, runtime.GOARCH)
	}
	if strings.Contains(cpuInfo(), "User Mode Linux") {
		return fmt.Errorf("%w: already in a guest", ErrUnavailable)
	}
	if _, err := exec.LookPath(c.kernel()); err != nil {
		return fmt.Errorf("%w: %w: install the package user-mode-linux", ErrUnavailable, err)
	}
	if _, err := os.Stat(modulesRoot); err != nil {
		return fmt.Errorf("%w: %w: install the package user-mode-linux", ErrUnavailable, err)
	}
	if own, ok := debug.ReadBuildInfo(); ok && isRaceBuild(own) {
		return fmt.Errorf("%w: this program is built with the race detector, which does not run in a guest: use go test without -race", ErrUnavailable)
	}
	if c.PadXState || hasAMX() {
		if _, err := exec.LookPath("gcc"); err != nil {
			return fmt.Errorf("%w: processors with AMX require a shim, and compiling it requires gcc: %w: install the package gcc", ErrUnavailable, err)
		}
	}
	return nil
}

func (c Config) kernel() string {
	if c.Kernel != "" {
		return c.Kernel
	}
	return kernelName
}

// HasRaceDetector reports whether a Go program was built with the race detector, which does not run
// in a guest.
func HasRaceDetector(program string) bool {
	info, err := buildinfo.ReadFile(program)
	return err == nil && isRaceBuild(info)
}

func isRaceBuild(info *debug.BuildInfo) bool {
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// hasAMX reports whether the processor has registers that the guest's kernel has no room for.
func hasAMX() bool { return strings.Contains(cpuInfo(), " amx_tile") }

// cpuInfo returns the content of /proc/cpuinfo, or "".
func cpuInfo() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	return string(text)
}
