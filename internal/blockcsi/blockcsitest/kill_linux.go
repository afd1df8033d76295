package blockcsitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volsim/volsim/internal/csireq"
)

const (
	killEnv = "VOLSIM_KILL"
	// fiThaw is FITHAW of linux/fs.h.
	fiThaw = 0xC0045878
	// killsMax bounds how often one operation is killed.
	killsMax = 100
)

// killOrder tells a process what to run and where to be killed.
type killOrder struct {
	Operation string
	Step      int    // the step at which it is killed, from 1; counts steps of tools if Tools is set
	Tools     string // directory of wrappers that count a step before and after each tool
	Base      string
}

// tools are the programs before and after which a process may be killed.
var tools = []string{
	"blkid", "mount", "umount", "mkfs.ext4", "e2fsck", "resize2fs", "mkfs.xfs", "xfs_growfs", "mkfs.btrfs", "btrfs",
	"btrfstune", "fsck",
}

// operation is an operation that is killed.
type operation struct {
	name    string
	tools   bool // it is also killed at tools
	copies  bool // it copies volumes
	fsType  string
	prepare func(w *world) // may be nil
	run     func(w *world)
	// check is called after a new driver has recovered. The operation must be completed or undone,
	// and must be repeatable. check restores the state before the operation.
	check func(w *world)
}

// TestKilled runs operations in processes that are killed with SIGKILL. They are killed at each
// step that Config.Open reports, and before and after each program that they run. A new driver then
// recovers. No file system may be frozen, nothing may be left over, each operation must be
// completed or undone, and all volumes must have kept their data. Operations run in parallel, each
// in its own world.
//
// The processes run the test program again with only the calling test. Code before the call is
// therefore repeated.
func TestKilled(t *testing.T, cfg Config) {
	if text := os.Getenv(killEnv); text != "" {
		runUntilKilled(t, cfg, text)
		return
	}
	for _, each := range operations {
		if len(cfg.Cases) > 0 && !slices.Contains(cfg.Cases, each.name) {
			continue
		}
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cfg)
			if each.copies && !w.copies() {
				t.Skip("the driver does not copy volumes")
			}
			if each.name == "settings" && len(cfg.Settings) == 0 {
				t.Skip("the driver does not modify volumes")
			}
			if v, err := w.try("probe", each.fsType, 0, ""); err != nil {
				t.Skipf("not supported here: %v", err)
			} else {
				w.delete(v.id)
			}
			w.killAll(each, "")
			if each.tools {
				w.killAll(each, writeTools(t))
			}
		})
	}
}

// runUntilKilled runs an operation in a process that is killed.
func runUntilKilled(t *testing.T, cfg Config, text string) {
	var order killOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(operations, func(o operation) bool { return o.name == order.Operation })
	steps := 0
	onStep := func(string) {
		if steps++; steps == order.Step && order.Tools == "" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	w := openWorld(t, cfg, order.Base, onStep)
	if order.Tools != "" {
		w.must(os.WriteFile(filepath.Join(order.Tools, "count"), []byte("0"), 0o600))
		t.Setenv("KILL_STEP", fmt.Sprint(order.Step))
		t.Setenv("KILL_PID", fmt.Sprint(os.Getpid()))
		t.Setenv("PATH", order.Tools+":"+os.Getenv("PATH"))
	}
	operations[at].run(w)
}

// writeTools writes wrappers of the tools to a directory for PATH.
func writeTools(t *testing.T) string {
	dir := t.TempDir()
	for _, tool := range tools {
		real, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		text := strings.NewReplacer("DIR", dir, "REAL", real).Replace(`#!/bin/sh
step() {
	n=$(($(cat DIR/count) + 1))
	echo $n >DIR/count
	[ $n != "$KILL_STEP" ] || { kill -9 "$KILL_PID"; exit 1; }
}
step
REAL "$@"
result=$?
step
exit $result
`)
		if err := os.WriteFile(filepath.Join(dir, tool), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// killAll kills an operation at each of its steps.
func (w *world) killAll(each operation, tools string) {
	w.Helper()
	source := w.create("source", each.fsType, 0, "")
	source.use(w.first())
	source.write(1)
	want := source.hash()
	kills := 0
	for killed := true; killed; {
		if each.prepare != nil {
			each.prepare(w)
		}
		kills++
		w.stop()
		killed = w.killOnce(killOrder{Operation: each.name, Step: kills, Tools: tools, Base: w.Base})
		w.start(nil)
		done, err := w.Driver.Recover(w.Context())
		w.must(err)
		source.wantThawed()
		if left, err := w.Driver.Orphans(w.Context()); err != nil || len(left) > 0 {
			w.Errorf("killed at step %d: orphans %v (%v) after recovery: %v", kills, left, err, done)
		}
		each.check(w)
		source.wantHash(want, "")
		if w.Failed() || kills > killsMax {
			w.Fatalf("kill %d of %s (tools: %v); recovered: %v", kills, each.name, tools != "", done)
		}
	}
	if kills < 2 {
		w.Errorf("%s was never killed (tools: %v)", each.name, tools != "")
	}
	w.Logf("%s: killed %d times (tools: %v)", each.name, kills-1, tools != "")
	source.stopUse()
	w.delete(source.id)
}

// killOnce runs an operation in a process and reports whether it was killed.
func (w *world) killOnce(order killOrder) bool {
	w.Helper()
	text, err := json.Marshal(order)
	w.must(err)
	test, _, _ := strings.Cut(w.Name(), "/"+strings.ReplaceAll(order.Operation, " ", "_"))
	command := exec.CommandContext(w.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(test, "/", "$/^")+"$")
	command.Env = append(os.Environ(), killEnv+"="+string(text))
	output, err := command.CombinedOutput()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		w.Fatalf("%s, killed at step %d: %v: %s", order.Operation, order.Step, err, output)
	}
	return false
}

// wantThawed checks that the volume's file system is not frozen, and thaws it otherwise.
func (v *volume) wantThawed() {
	v.Helper()
	if v.fsType == block {
		return
	}
	withoutFork(func() {
		dir, err := os.Open(v.path())
		v.must(err)
		defer dir.Close()
		if err := unix.IoctlSetInt(int(dir.Fd()), fiThaw, 0); !errors.Is(err, unix.EINVAL) {
			v.Errorf("%s is frozen; thaw returned %v", v.path(), err)
		}
	})
}

// volume returns an existing volume, used on a node or unused ("").
func (w *world) volume(name, fsType, node string) *volume {
	return &volume{world: w, id: csireq.VolumeID(name), fsType: fsType, node: node}
}

// snapshots returns the number of listed snapshots.
func (w *world) snapshots() int {
	w.Helper()
	response, err := w.Driver.Controller().ListSnapshots(w.Context(), &csi.ListSnapshotsRequest{})
	w.must(err)
	return len(response.GetEntries())
}
