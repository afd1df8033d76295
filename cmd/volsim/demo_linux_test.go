package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
)

// TestDemoAfterAKilledDemo kills a demo while its volume is in use. The next one in the same directory, and without --dir,
// removes what is left and succeeds.
func TestDemoAfterAKilledDemo(t *testing.T) {
	for _, devices := range []string{"loop", "lvm"} {
		for _, temporary := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s-temporary-%v", devices, temporary), func(t *testing.T) { // LVM restricts the directory's name
				probe := map[string]func() error{"loop": loop.Probe, "lvm": lvm.Probe}[devices]
				if err := probe(); err != nil {
					t.Skip(err)
				}
				dir := t.TempDir()
				args := []string{"demo", "--devices", devices, "--dir", dir}
				if temporary {
					t.Setenv("TMPDIR", dir)
					args = args[:3]
				}
				// Nothing is read after the volume is in use, so the demo soon waits to write.
				reads, writes, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer reads.Close()
				if _, err := unix.FcntlInt(writes.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
					t.Fatal(err)
				}
				killed := command(append(args, "--json")...)
				var stderr strings.Builder
				killed.Stdout, killed.Stderr = writes, &stderr
				if err := errors.Join(killed.Start(), writes.Close()); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(reads)
				for lines.Scan() && !strings.Contains(lines.Text(), "has the driver publish the volume to the pod") {
				}
				err = killed.Process.Kill()
				_ = killed.Wait()
				if err != nil || lines.Text() == "" {
					t.Fatalf("not killed: %v; stderr %q", err, stderr.String())
				}

				status, shown, errs := volsim(t.Context(), args...)
				if status != 0 || !strings.Contains(shown, "No leaks.") {
					t.Errorf("status %d, stderr %q", status, errs)
				}
				want := fmt.Sprintf("(process %d, not running)\n", killed.Process.Pid)
				if strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "volsim: removed ") || !strings.Contains(errs, " of an earlier run in "+dir) ||
					!strings.HasSuffix(errs, want) {
					t.Errorf("stderr %q, want one line with %s", errs, want)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left in the directory: %v, %v", left, err)
				}
				if bound, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, dir) }); err != nil || len(bound) > 0 {
					t.Errorf("devices: %v, %v", bound, err)
				}
			})
		}
	}
}
