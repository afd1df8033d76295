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

// kernelName is the program that is the kernel, of Debian's package user-mode-linux.
const kernelName = "linux.uml"

// Probe gives nil if a guest can run here, or an ErrMissing that says what it takes.
func Probe(c Config) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: User-Mode Linux is for amd64, this is %s", ErrUnavailable, runtime.GOARCH)
	}
	if strings.Contains(cpuInfo(), "User Mode Linux") {
		return fmt.Errorf("%w: this is one", ErrUnavailable)
	}
	if _, err := exec.LookPath(c.kernel()); err != nil {
		return fmt.Errorf("%w: %w: install the package user-mode-linux", ErrUnavailable, err)
	}
	if _, err := os.Stat(modulesRoot); err != nil {
		return fmt.Errorf("%w: %w: install the package user-mode-linux", ErrUnavailable, err)
	}
	if own, ok := debug.ReadBuildInfo(); ok && isRaceBuild(own) {
		return fmt.Errorf("%w: this program has the race detector in it, which does not run in a guest: go test without -race", ErrUnavailable)
	}
	if c.PadXState || hasAMX() {
		if _, err := exec.LookPath("gcc"); err != nil {
			return fmt.Errorf("%w: on a processor with AMX the guest's kernel needs a shim, and that %w: install the package gcc", ErrUnavailable, err)
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

// HasRaceDetector tells whether a program was built with the race detector, with which no program runs in a guest. One that is not
// Go's was not.
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

// hasAMX tells whether the processor has registers that the guest's kernel has no room for.
func hasAMX() bool { return strings.Contains(cpuInfo(), " amx_tile") }

// cpuInfo is what the kernel tells of the processors, "" if it does not.
func cpuInfo() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	return string(text)
}
