//go:build !linux

package nodefs

import "os/exec"

// killGroup does nothing: NewReal fails on this system.
func killGroup(*exec.Cmd) {}
