//go:build linux && (amd64 || arm64)

package process_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/process"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
)

// TestRunsEndWithTheProgram kills a program that runs a container and an execution. The program is this test.
func TestRunsEndWithTheProgram(t *testing.T) {
	const role = "PROCESS_TEST_DIES"
	if os.Getenv(role) != "" {
		w := newWorld(t)
		s := w.shell("sleep 1d & echo up; sleep 1d")
		w.begin(t, s)
		e := testcheck.Must(w.runtime.Exec(s.Run, []string{"sh", "-c", "echo up; sleep 1d"}, container.Streams{Output: container.NewOutput(0)}))
		fmt.Println("running")
		<-e.Done
		return
	}
	if err := process.Check(); err != nil {
		t.Skip(err)
	}
	program := exec.Command(testcheck.Must(os.Executable()), "-test.run", t.Name()) //nolint:gosec // this test
	program.Env = append(os.Environ(), role+"=1", "TMPDIR="+t.TempDir())
	out := testcheck.Must(program.StdoutPipe())
	testcheck.NoError(t, program.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "running" {
	}
	var processes []int // descriptors of the program's children
	for _, file := range testcheck.Must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", program.Process.Pid))) {
		for _, number := range strings.Fields(string(testcheck.Must(os.ReadFile(file)))) {
			processes = append(processes, testcheck.Must(unix.PidfdOpen(testcheck.Must(strconv.Atoi(number)), 0)))
		}
	}
	if len(processes) == 0 {
		t.Error("the program has no children")
	}
	testcheck.NoError(t, program.Process.Kill())
	_ = program.Wait()
	for _, fd := range processes {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		for {
			n, err := unix.Poll(poll, 10000)
			if err == unix.EINTR {
				continue
			}
			if n != 1 {
				t.Errorf("a process has not ended after 10 s: %v", err)
			}
			break
		}
		unix.Close(fd)
	}
	newWorld(t) // removes the cgroups
	left := testcheck.Must(filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/pids/volsim-%d-*", program.Process.Pid)))
	testcheck.Equal(t, "cgroups", 0, len(left))
}
