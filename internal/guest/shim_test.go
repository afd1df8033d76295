//go:build linux

package guest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestShimCompletesRegisters sets part of the registers, which the kernel rejects and the shim completes. Unlike AMX, this
// is possible on every host.
func TestShimCompletesRegisters(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOARCH != "amd64" {
		t.Skipf("the shim requires gcc and amd64: %v, on %s", err, runtime.GOARCH)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "short")
	if output, err := exec.Command("gcc", "-Wall", "-Werror", "-o", program, "testdata/short.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	shim, err := buildShim(folder)
	if err != nil {
		t.Fatal(err)
	}
	const refused, wrong = 2, 3 // exit statuses of short.c
	for _, c := range []struct {
		name    string
		environ []string
		want    int
	}{
		{"without", nil, refused},
		{"with", []string{"LD_PRELOAD=" + shim}, 0},
	} {
		command := exec.Command(program)
		command.Env = append(os.Environ(), c.environ...)
		output, err := command.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := command.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%s the shim: exit status %d, want %d (%d means rejected, %d means wrong values): %s",
				c.name, got, c.want, refused, wrong, output)
		}
	}
}
