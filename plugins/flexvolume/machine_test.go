package flexvolume_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
)

// script is a driver that records its calls, and hangs for the volume "slow".
const script = `#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$1 $2" in
init*) echo '{"status": "Success", "capabilities": {"attach": true}}' ;;
"attach "*) echo '{"status": "Success", "device": "/dev/sdx"}' ;;
"detach slow") exec sleep 1000 ;;
"detach broken") echo "Segmentation fault"; exit 139 ;;
*) echo '{"status": "Not supported"}'; exit 1 ;;
esac
`

// TestProgramOnThisMachine installs a driver on a live host; it is found, called and removed.
func TestProgramOnThisMachine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "drivers")
	drivers, err := nodefs.NewReal(filepath.Dir(dir))
	if err != nil {
		t.Skipf("no disk of this machine: %v", err)
	}
	host := sim.NewLive(sim.LiveConfig{})
	c := host.Process("controller")
	var manager plugins.Manager
	directory := prober.New(prober.Config{
		Process: c, Manager: &manager, FS: drivers, Dir: dir,
		New: func(ctx context.Context, program, name string) (plugins.Plugin, error) {
			return flexvolume.New(ctx, flexvolume.Config{Process: c, FS: drivers, Timeout: time.Second}, program, name)
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	watched := make(chan error, 1)
	go func() { watched <- directory.Watch(ctx) }()
	defer func() {
		cancel()
		if err := <-watched; err != nil {
			t.Errorf("watch: %v", err)
		}
	}()
	defer host.Close()
	host.Start()
	find := func() (caps plugins.Capabilities, err error) { return manager.FindBySpec(persistent("v")) }

	install(t, filepath.Join(dir, "example.com~disk"))
	if err := host.Wait(ctx, "the driver", func() bool { _, err := find(); return err == nil }); err != nil {
		t.Fatal(err)
	}
	caps, err := find()
	if err != nil {
		t.Fatal(err)
	}
	call := make(chan outcome)
	c.Spawn("calls", func(ctx context.Context) {
		var out outcome
		out.device, out.err = caps.Attacher.Attach(ctx, persistent("v"), node1)
		call <- out
		call <- outcome{err: caps.Attacher.Detach(ctx, "v", node1)}
		call <- outcome{err: caps.Attacher.Detach(ctx, "broken", node1)}
	})
	if out := <-call; out.err != nil || out.device != "/dev/sdx" {
		t.Errorf("attach: %q, %v", out.device, out.err)
	}
	if out := <-call; out.err != nil {
		t.Errorf("detach, which it does not support: %v", out.err)
	}
	if out := <-call; out.err != nil {
		t.Errorf("detach, which it is not asked for again: %v", out.err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "example.com~disk", "calls"))
	if err != nil {
		t.Fatal(err)
	}
	options := `{"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"v","kubernetes.io/readwrite":"rw","lun":"7"}`
	want := []string{"getvolumename " + options, "attach " + options + " node-1", "detach v node-1"}
	got := strings.Split(strings.TrimSpace(string(calls)), "\n")
	// A change below the directory begins it again, also one that is noticed late, between two calls.
	got = slices.DeleteFunc(got, func(call string) bool { return call == "init" })
	if !strings.HasPrefix(string(calls), "init\n") {
		t.Errorf("first call: %q", calls)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(filepath.Join(dir, "example.com~disk")); err != nil {
		t.Fatal(err)
	}
	if err := host.Wait(ctx, "the driver to go", func() bool {
		_,
			err := find()
		return errors.Is(err, plugins.ErrNoPlugin)
	}); err != nil {
		t.Fatal(err)
	}
}

type outcome struct {
	device string
	err    error
}

// install puts the driver into place atomically.
func install(t *testing.T, dir string) {
	t.Helper()
	temporary := filepath.Join(filepath.Dir(dir), ".new")
	err := errors.Join(os.MkdirAll(temporary, 0o755),
		os.WriteFile(filepath.Join(temporary, "disk"), []byte(script), 0o755), os.Rename(temporary, dir))
	if err != nil {
		t.Fatal(err)
	}
}
