package rundir_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/rundir"
	"github.com/volsim/volsim/internal/testcheck"
)

// otherDir is the environment variable with the directory that another process locks.
const otherDir = "VOLSIM_TEST_RUNDIR"

// TestOtherProcess is the process that startOther starts. On its own it does nothing.
func TestOtherProcess(t *testing.T) {
	path := os.Getenv(otherDir)
	if path == "" {
		t.Skip("for other tests")
	}
	dir, err := rundir.Lock(path)
	if err == nil {
		err = dir.Record(rundir.Run{Devices: "other", Paths: []string{"a", "b"}})
	}
	fmt.Println("locked:", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startOther starts a process that locks a directory. kill sends it SIGKILL and does not wait.
func startOther(t *testing.T, path string) (kill func() *exec.Cmd) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	command.Env = append(os.Environ(), otherDir+"="+path)
	stdin, err := command.StdinPipe()
	testcheck.NoError(t, err)
	stdout, err := command.StdoutPipe()
	testcheck.NoError(t, err)
	testcheck.NoError(t, command.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = command.Wait()
	})
	said := bufio.NewScanner(stdout)
	for said.Scan() && !strings.HasPrefix(said.Text(), "locked: ") {
	}
	if said.Text() != "locked: <nil>" {
		t.Fatalf("the other process said %q", said.Text())
	}
	return func() *exec.Cmd {
		testcheck.NoError(t, command.Process.Kill())
		return command
	}
}

// wantInUse checks that a directory is refused because of a process.
func wantInUse(t *testing.T, path string, pid int) {
	t.Helper()
	want := fmt.Sprintf("directory %q is in use by volsim, process %d", path, pid)
	for name, lock := range map[string]func(string) (*rundir.Dir, error){"Lock": rundir.Lock, "LockAbandoned": rundir.LockAbandoned} {
		if dir, err := lock(path); err == nil || dir != nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestRunningProcessIsNamed(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	kill := startOther(t, path)
	pid := readRecord(t, path).Process.PID
	wantInUse(t, path, pid)

	command := kill()
	dir, err := rundir.Lock(path)
	testcheck.NoError(t, err)
	// The process has ended and still has its number, since its parent has not noticed.
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", command.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if earlier := dir.Earlier(); earlier.Process.PID != pid || !cmp.Equal(earlier.Paths, []string{"a", "b"}) || earlier.Devices != "other" {
		t.Errorf("earlier run: %+v", earlier)
	}
	testcheck.NoError(t, dir.Release())
	isEmpty(t, path)
}

// TestProcessOfTheSameNumber has records with the number of a running process that is another one.
func TestProcessOfTheSameNumber(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	kill := startOther(t, path)
	running := readRecord(t, path)
	defer kill()
	for name, change := range map[string]func(r *rundir.Run){
		"started at another time": func(r *rundir.Run) { r.Process.Start++ },
		"of another boot":         func(r *rundir.Run) { r.Process.Boot = "0" },
		"without a process":       func(r *rundir.Run) { r.Process.PID = 1 << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			writeRecord(t, path, running)
			wantInUse(t, path, running.Process.PID) // not locked, but running
			earlier := running
			change(&earlier)
			writeRecord(t, path, earlier)
			dir, err := rundir.Lock(path)
			testcheck.NoError(t, err)
			if diff := cmp.Diff(&earlier, dir.Earlier()); diff != "" {
				t.Errorf("earlier run (-want +got):\n%s", diff)
			}
			testcheck.NoError(t, dir.Release())
		})
	}
}

func TestLockWithinAProcess(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	testcheck.NoError(t, os.Symlink(path, link))
	first, err := rundir.Lock(link)
	testcheck.NoError(t, err)
	if first.Earlier() != nil || first.Path() != path {
		t.Errorf("%s has the record %v", first.Path(), first.Earlier())
	}
	other, err := rundir.Lock(t.TempDir())
	testcheck.NoError(t, err)
	testcheck.NoError(t, other.Release())

	testcheck.NoError(t, first.Record(rundir.Run{Paths: []string{"a", "b", "c"}}))
	wantInUse(t, path, os.Getpid())
	testcheck.NoError(t, first.Unlock())
	second, err := rundir.Lock(path) // this process has given it up
	testcheck.NoError(t, err)
	if earlier := second.Earlier(); earlier == nil || earlier.Process.PID != os.Getpid() || len(earlier.Paths) != 3 {
		t.Errorf("earlier run: %+v", earlier)
	}
	testcheck.NoError(t, second.Record(rundir.Run{Paths: []string{"a"}})) // shorter than before
	if now := readRecord(t, path); len(now.Paths) != 1 {
		t.Errorf("record: %+v", now)
	}
	testcheck.NoError(t, second.Release())
	isEmpty(t, path)
}

func TestDirectoryWithoutARecord(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	for _, create := range []bool{false, true} {
		if create { // as by a process that is about to write its record
			testcheck.NoError(t, os.WriteFile(filepath.Join(path, rundir.FileName), nil, 0o600))
		}
		if dir, err := rundir.LockAbandoned(path); dir != nil || err != nil {
			t.Errorf("locked without a record: %v", err)
		}
	}
	dir, err := rundir.Lock(path)
	testcheck.NoError(t, err)
	if dir.Earlier() != nil {
		t.Errorf("the empty record is %+v", dir.Earlier())
	}
	testcheck.NoError(t, dir.Release())
}

func TestFilesThatAreNoRecord(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(file string) error{
		"text":        func(file string) error { return os.WriteFile(file, []byte("my notes"), 0o600) },
		"version":     func(file string) error { return os.WriteFile(file, []byte(`{"version": 2}`), 0o600) },
		"directory":   func(file string) error { return os.Mkdir(file, 0o700) },
		"link":        func(file string) error { return os.Symlink("/etc/hostname", file) },
		"broken link": func(file string) error { return os.Symlink(file+"-other", file) },
		"other user's": func(file string) error {
			if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Chown(file, 12345, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "other user's" && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			path := t.TempDir()
			file := filepath.Join(path, rundir.FileName)
			testcheck.NoError(t, place(file))
			before, err := os.Lstat(file)
			testcheck.NoError(t, err)
			for _, lock := range []func(string) (*rundir.Dir, error){rundir.Lock, rundir.LockAbandoned} {
				if _, err := lock(path); err == nil {
					t.Error("locked")
				}
			}
			after, err := os.Lstat(file)
			testcheck.NoError(t, err)
			if !os.SameFile(before, after) || after.ModTime() != before.ModTime() || after.Size() != before.Size() {
				t.Errorf("changed to %v", after)
			}
			if names, err := os.ReadDir(path); err != nil || len(names) != 1 {
				t.Errorf("the directory has %v, %v", names, err)
			}
		})
	}
}

// TestOneOfManyProcesses has several processes start in a directory at the same time, again and again.
func TestOneOfManyProcesses(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	deadline := time.Now().Add(10 * time.Second)
	for range 5 {
		var others []*exec.Cmd
		for range 4 {
			command := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$", "-test.v")
			command.Env = append(os.Environ(), otherDir+"="+path)
			others = append(others, command)
		}
		outputs := make(chan string, len(others))
		hold, release := io.Pipe()
		defer hold.Close()
		for _, command := range others {
			stdin, err := command.StdinPipe()
			testcheck.NoError(t, err)
			stdout, err := command.StdoutPipe()
			testcheck.NoError(t, err)
			testcheck.NoError(t, command.Start())
			go func() {
				said := bufio.NewScanner(stdout)
				for said.Scan() && !strings.HasPrefix(said.Text(), "locked: ") {
				}
				outputs <- said.Text()
				_, _ = io.Copy(io.Discard, hold)
				stdin.Close()
				_, _ = io.Copy(io.Discard, stdout)
			}()
		}
		won := 0
		for range others {
			if <-outputs == "locked: <nil>" {
				won++
			}
		}
		release.Close()
		for _, command := range others {
			_ = command.Wait()
		}
		if won != 1 {
			t.Fatalf("%d processes have the directory", won)
		}
		if time.Now().After(deadline) {
			return
		}
	}
}

func readRecord(t *testing.T, path string) rundir.Run {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path, rundir.FileName))
	testcheck.NoError(t, err)
	var run rundir.Run
	testcheck.NoError(t, json.Unmarshal(text, &run))
	return run
}

func writeRecord(t *testing.T, path string, run rundir.Run) {
	t.Helper()
	text, err := json.Marshal(run)
	testcheck.NoError(t, err)
	testcheck.NoError(t, os.WriteFile(filepath.Join(path, rundir.FileName), text, 0o600))
}

func isEmpty(t *testing.T, path string) {
	t.Helper()
	if names, err := os.ReadDir(path); err != nil || len(names) > 0 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}
