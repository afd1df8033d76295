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
	"github.com/volsim/volsim/plugins/internal/csireq"
)

const (
	killEnv = "VOLSIM_KILL"
	// fiThaw is FITHAW of linux/fs.h.
	fiThaw = 0xC0045878
	// killsMax bounds how often one operation is killed.
	killsMax = 100
)

// killOrder is what a process that is to be killed is told.
type killOrder struct {
	Operation string
	Step      int    // the step at which it is killed, from 1; those of tools count if Tools is set
	Tools     string // directory of programs that tell before and after they run the tools
	Base      string
}

// tools are the programs at which a process may be killed, before and after each.
var tools = []string{
	"blkid", "mount", "umount", "mkfs.ext4", "e2fsck", "resize2fs", "mkfs.xfs", "xfs_growfs", "mkfs.btrfs", "btrfs", "btrfstune", "fsck",
}

// operation is what is killed.
type operation struct {
	name    string
	tools   bool // it is killed at tools, too
	copies  bool // it copies volumes
	fsType  string
	prepare func(w *World) // nil is nothing
	run     func(w *World)
	// check is called when a new driver has recovered: the operation is to be
	// finished or undone, and can be done again. It leaves what was there before.
	check func(w *World)
}

// TestKilled has operations done by processes that are killed (kill -9): at the first
// step that Subject.Open is told of, at the second and so on, and before and after
// each program that is run, until they are not killed any more. A new driver then
// recovers: no file system is frozen, nothing is left over, each operation is
// finished or undone, and the data of all volumes are what they were. Operations are
// killed beside one another, each in a world of its own.
//
// The processes are the test's own program, which runs the test that calls Killed
// again: nothing may come before it that is not to be done twice.
func TestKilled(t *testing.T, subject Config) {
	if text := os.Getenv(killEnv); text != "" {
		runUntilKilled(t, subject, text)
		return
	}
	for _, each := range operations {
		if len(subject.Cases) > 0 && !slices.Contains(subject.Cases, each.name) {
			continue
		}
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t, subject)
			if each.copies && !w.copies() {
				t.Skip("the driver copies no volumes")
			}
			if each.name == "settings" && len(subject.Settings) == 0 {
				t.Skip("the driver's volumes are not modified")
			}
			if v, err := w.try("is it offered", each.fsType, 0, ""); err != nil {
				t.Skipf("not offered here: %v", err)
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

// runUntilKilled is what a process does that is to be killed.
func runUntilKilled(t *testing.T, subject Config, text string) {
	var told killOrder
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(operations, func(o operation) bool { return o.name == told.Operation })
	steps := 0
	onStep := func(string) {
		if steps++; steps == told.Step && told.Tools == "" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	w := openWorld(t, subject, told.Base, onStep)
	if told.Tools != "" {
		w.must(os.WriteFile(filepath.Join(told.Tools, "count"), []byte("0"), 0o600))
		t.Setenv("KILL_STEP", fmt.Sprint(told.Step))
		t.Setenv("KILL_PID", fmt.Sprint(os.Getpid()))
		t.Setenv("PATH", told.Tools+":"+os.Getenv("PATH"))
	}
	operations[at].run(w)
}

// writeTools writes programs that stand before the tools in the path.
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
func (w *World) killAll(each operation, tools string) {
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
			w.Errorf("killed at step %d: left are %v (%v) after it was recovered: %v", kills, left, err, done)
		}
		each.check(w)
		source.wantHash(want, "")
		if w.Failed() || kills > killsMax {
			w.Fatalf("that was kill %d of %s (tools: %v); recovered: %v", kills, each.name, tools != "", done)
		}
	}
	if kills < 2 {
		w.Errorf("%s was never killed (tools: %v)", each.name, tools != "")
	}
	w.Logf("%s: killed %d times (tools: %v)", each.name, kills-1, tools != "")
	source.stopUse()
	w.delete(source.id)
}

// killOnce has an operation done by a process, and tells whether it was killed.
func (w *World) killOnce(told killOrder) bool {
	w.Helper()
	text, err := json.Marshal(told)
	w.must(err)
	test, _, _ := strings.Cut(w.Name(), "/"+strings.ReplaceAll(told.Operation, " ", "_"))
	command := exec.CommandContext(w.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(test, "/", "$/^")+"$")
	command.Env = append(os.Environ(), killEnv+"="+string(text))
	output, err := command.CombinedOutput()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		w.Fatalf("%s, to be killed at step %d: %v: %s", told.Operation, told.Step, err, output)
	}
	return false
}

// wantThawed wants the volume's file system not to be frozen; else it thaws it.
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
			v.Errorf("%s was frozen, thawing it: %v", v.path(), err)
		}
	})
}

// volume returns one that is there under a name, used on a node or nowhere ("").
func (w *World) volume(name, fsType, node string) *volume {
	return &volume{World: w, id: csireq.VolumeID(name), fsType: fsType, node: node}
}

// snapshots returns how many snapshots are listed.
func (w *World) snapshots() int {
	w.Helper()
	response, err := w.Driver.Controller().ListSnapshots(w.Context(), &csi.ListSnapshotsRequest{})
	w.must(err)
	return len(response.GetEntries())
}
