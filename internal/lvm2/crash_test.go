//go:build linux

package lvm2_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

// childVariable makes this program the process that is killed; its value is the directory of a
// world.
const childVariable = "VOLSIM_LVM2_CHILD"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == tracerName {
		fmt.Fprintln(os.Stderr, trace(os.Args[0], os.Args[1:]))
		os.Exit(1)
	}
	if directory := os.Getenv(childVariable); directory != "" {
		mode, group := lvm2.Mode(os.Args[1]), os.Args[2]
		moment, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = work(context.Background(), directory, mode, group, moment)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stopsOfKilled is how far a command of LVM has come when its process is killed. A whole one makes
// many more stops.
const stopsOfKilled = 200

// work clones the volume v, grows the clone by relocation, and removes it. Each command of LVM has
// two moments: in it, and after it. At the given one the process is killed. work prints the number
// of the moments if it reaches the end.
func work(ctx context.Context, directory string, mode lvm2.Mode, group string, moment int) error {
	moments := 0
	working := false
	var system *lvm2.System
	system, err := lvm2.Open(lvm2.Config{
		Directory: filepath.Join(directory, "lvm"), SystemID: systemID, Mode: mode,
		OnCommand: func(_ []string, ended bool) {
			if !working {
				return
			}
			if moments++; moments != moment {
				return
			}
			if !ended {
				testcheck.Must(0, useTracer(system, directory, stopsOfKilled, "process"))
				return
			}
			testcheck.Must(0, unix.Kill(os.Getpid(), unix.SIGKILL))
		},
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if _, err := system.AddFile(ctx, filepath.Join(directory, name+".img"), 0); err != nil {
			return err
		}
	}
	opened, err := system.VolumeGroup(ctx, group)
	if err != nil {
		return err
	}
	if err := useTracer(system, directory, 0, "process"); err != nil {
		return err
	}
	working = true
	if _, err := opened.Clone(ctx, "v", lvm2.Spec{Name: "c", Tags: []string{"uid=c"}}); err != nil {
		return err
	}
	if _, err := opened.Create(ctx, lvm2.Spec{Name: "n", Size: 4 * mib}); err != nil { // blocks its growth
		return err
	}
	if err := opened.Deactivate(ctx, "c"); err != nil {
		return err
	}
	if _, err := opened.Extend(ctx, "c", 40*mib); err != nil {
		return err
	}
	if err := opened.Remove(ctx, "c", "n"); err != nil {
		return err
	}
	fmt.Println(moments)
	return system.Close()
}

// Whenever the process is killed, each volume is complete or missing, the origin's file system
// continues, and a new process can do the same again.
func TestKilledProcess(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 24 * mib})
		fill(t, w.activate(t, "v"), 1)
		testcheck.NoError(t, w.Close())
		output, err := w.worker(0).CombinedOutput()
		testcheck.NoError(t, err)
		moments, err := strconv.Atoi(strings.TrimSpace(string(output)))
		testcheck.NoError(t, err)
		if moments < 10 {
			t.Fatalf("the worker has %d moments", moments)
		}
		w.restart(t)
		tries := min(often(16), moments)
		for i := range tries {
			moment := 1 + moments*i/tries
			testcheck.NoError(t, w.Close())
			output, err := w.worker(moment).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
				t.Fatalf("the worker was not killed at moment %d of %d: %v: %s", moment, moments, err, output)
			}
			w.restart(t)
			testcheck.NoError(t, w.group.Check(w.ctx))
			volumes, err := w.group.List(w.ctx)
			testcheck.NoError(t, err)
			report, err := w.group.Report(w.ctx)
			testcheck.NoError(t, err)
			if len(report.LogicalVolumes) != len(volumes) {
				t.Errorf("after kill %d there are volumes that are not ready: %+v", moment, report.LogicalVolumes)
			}
			for _, volume := range volumes {
				if volume.Name != "n" {
					wantFilled(t, w.activate(t, volume.Name), 1)
				}
				if volume.Name == "c" && !volume.HasTags("uid=c") || volume.Name == "v" && len(volumes) > 3 {
					t.Errorf("after kill %d: %+v", moment, volumes)
				}
				if volume.Name != "v" {
					testcheck.NoError(t, w.group.Remove(w.ctx, volume.Name))
				}
			}
		}
	})
}

// worker returns a process that works in the world and is killed at a moment, if it is not 0.
func (w *world) worker(moment int) *exec.Cmd {
	worker := exec.Command(os.Args[0], string(w.mode), w.group.Name(), strconv.Itoa(moment))
	worker.Env = append(os.Environ(), childVariable+"="+w.directory)
	return worker
}

// lvm runs an LVM command in a world's directory, as an earlier process would have.
func (w *world) lvm(t testing.TB, arguments ...string) {
	t.Helper()
	command := exec.Command("lvm", arguments...)
	command.Env = append(os.Environ(), "LVM_SYSTEM_DIR="+filepath.Join(w.directory, "lvm"),
		"LVM_SUPPRESS_FD_WARNINGS=1", "DM_DISABLE_UDEV=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("lvm %q: %v: %s", arguments, err, output)
	}
}

// However far a move had come, exactly one complete volume remains.
func TestInterruptedMove(t *testing.T) {
	metadataOnly(t)
	for _, test := range []struct {
		name        string
		interrupted func(t *testing.T, w *world, group string)
		want        byte
	}{
		{"while it was copied", func(t *testing.T, w *world, group string) {
			w.lvm(t, "lvchange", "--addtag", "volsim.unfinished", group+"/v.moved")
		}, 1},
		{"when it was copied", func(t *testing.T, w *world, group string) {
			w.lvm(t, "lvchange", "--addtag", "volsim.replaces=v", group+"/v.moved")
		}, 2},
		{"when the old one was removed", func(t *testing.T, w *world, group string) {
			w.lvm(t, "lvchange", "--addtag", "volsim.replaces=v", group+"/v.moved")
			w.lvm(t, "lvremove", "-y", group+"/v")
		}, 2},
		{"when it had its name", func(t *testing.T, w *world, group string) {
			w.lvm(t, "lvremove", "-y", group+"/v")
			w.lvm(t, "lvrename", group, "v.moved", "v")
			w.lvm(t, "lvchange", "--addtag", "volsim.replaces=v", group+"/v")
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, w *world) {
				for i, name := range []string{"v", "v.moved"} {
					w.create(t, lvm2.Spec{Name: name, Size: 8 * mib})
					fill(t, w.activate(t, name), byte(i+1))
					testcheck.NoError(t, w.group.Deactivate(w.ctx, name))
				}
				test.interrupted(t, w, w.group.Name())
				w.restart(t)
				report, err := w.group.Report(w.ctx)
				testcheck.NoError(t, err)
				if all := report.LogicalVolumes; len(all) != 1 || all[0].Name != "v" || len(all[0].Tags) > 0 {
					t.Errorf("there are %+v", all)
				}
				wantFilled(t, w.activate(t, "v"), test.want)
			})
		})
	}
}

// A process that is killed while it copies a mounted volume leaves it frozen.
func TestFrozenFileSystemIsThawed(t *testing.T) {
	eachMode(t, func(t *testing.T, w *world) {
		w.create(t, lvm2.Spec{Name: "v", Size: 64 * mib})
		w.create(t, lvm2.Spec{Name: "c", Size: 64 * mib, Tags: []string{"volsim.unfinished", "volsim.source=v"}})
		target, unmount := mount(t, w.activate(t, "v"), "ext4", true)
		directory, err := os.Open(target)
		testcheck.NoError(t, err)
		testcheck.NoError(t, unix.IoctlSetInt(int(directory.Fd()), 0xC0045877, 0))
		w.restart(t)
		err = unix.IoctlSetInt(int(directory.Fd()), 0xC0045878, 0)
		testcheck.NoError(t, directory.Close())
		wantError(t, err, unix.EINVAL) // since it is not frozen
		unmount()
	})
}
