//go:build amd64 || arm64

package process

import (
	"debug/elf"
	"errors"
	"os/exec"
	"slices"
)

// findBusybox returns the path of a busybox that needs no libraries.
func findBusybox() (string, error) {
	names := []string{"/bin/busybox", "/usr/bin/busybox"}
	if name, err := exec.LookPath("busybox"); err == nil {
		names = append([]string{name}, names...)
	}
	for _, name := range names {
		if isStatic(name) {
			return name, nil
		}
	}
	return "", errors.New("no statically linked busybox: install the package busybox-static")
}

// isStatic reports whether a file is a program that needs no libraries.
func isStatic(name string) bool {
	file, err := elf.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
