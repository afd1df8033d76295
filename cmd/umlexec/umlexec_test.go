package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/guest"
)

func TestRequirementsOf(t *testing.T) {
	for _, c := range []struct {
		args []string
		want testRequirements
	}{
		{[]string{"-c", "exit"}, testRequirements{}},
		{[]string{"-test.timeout=10m0s", "-test.v=true", "-test.coverprofile="}, testRequirements{timeout: 10 * time.Minute}},
		{
			[]string{"-test.coverprofile=/a/b/c.out", "--test.cpuprofile=cpu", "-test.outputdir=/out", "-test.gocoverdir=/cover", "-test.testlogfile=/a/b/log"},
			testRequirements{writes: []string{"/a/b", "/cover", "/out"}},
		},
		{[]string{"-test.trace=t"}, testRequirements{writes: []string{"."}}},
	} {
		if diff := cmp.Diff(c.want, requirementsOf(c.args), cmp.AllowUnexported(testRequirements{})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, diff)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "3K": 3 << 10, "512M": 512 << 20, "2G": 2 << 30, "1T": 1 << 40} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "0", "-1", "1X", "1MM", "1.5G", "9999999T", "/dev/null"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

// umlexec builds the command without the race detector, and skips the test if no guest can run. Files left in TMPDIR fail
// the test.
func umlexec(t *testing.T) string {
	t.Helper()
	if err := guest.Probe(guest.Config{}); err != nil && !guest.HasRaceDetector("/proc/self/exe") {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "umlexec")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", folder)
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(folder, "*"))
		// A killed go test leaves its own files.
		left = slices.DeleteFunc(left, func(p string) bool { return strings.HasPrefix(filepath.Base(p), "go-build") })
		if err := errors.Join(err, os.RemoveAll(folder)); err != nil || len(left) != 0 {
			t.Errorf("leaked files: %v, %v", left, err)
		}
	})
	return program
}

// goTest returns the command "go test" of testdata/inside in a guest.
func goTest(t *testing.T, program, want string, flags ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{"test", "-exec", program, "-count=1"}, flags...)
	command := exec.Command("go", append(args, "./testdata/inside")...)
	command.Env = append(os.Environ(), "WANT="+want)
	return command
}

func TestGoTestInAGuest(t *testing.T) {
	program := umlexec(t)
	profile := filepath.Join(t.TempDir(), "cover.out")
	for _, c := range []struct {
		name, want string
		flags      []string
		status     int
		text       []string
	}{
		{"passes", "", []string{"-v", "-coverprofile=" + profile}, 0, []string{"--- PASS: TestInside", "kernel: mem=1024M ", "ok  \t"}},
		{"fails", "fail", nil, 1, []string{"--- FAIL: TestInside", "fails as requested", "FAIL\t"}},
		{"runs into its own deadline", "slow", []string{"-timeout=1s"}, 1, []string{"panic: test timed out after 1s", "FAIL\t"}},
		{"has the race detector", "", []string{"-race"}, 1, []string{"go test without -race", "FAIL\t"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath("gcc"); err != nil && slices.Contains(c.flags, "-race") {
				t.Skipf("the race detector requires a C compiler: %v", err)
			}
			command := goTest(t, program, c.want, c.flags...)
			output, err := command.CombinedOutput()
			if got := command.ProcessState.ExitCode(); got != c.status {
				t.Errorf("exit status %d, want %d (%v)", got, c.status, err)
			}
			for _, text := range c.text {
				if !bytes.Contains(output, []byte(text)) {
					t.Errorf("no %q in the output:\n%s", text, output)
				}
			}
		})
	}
	if text, err := os.ReadFile(profile); err != nil || !bytes.HasPrefix(text, []byte("mode: ")) {
		t.Errorf("coverage profile: %v, %.20q", err, text)
	}
}

func TestInterrupt(t *testing.T) {
	program := umlexec(t)
	binary := filepath.Join(t.TempDir(), "inside.test")
	if output, err := exec.Command("go", "test", "-c", "-o", binary, "./testdata/inside").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, c := range []struct {
		name, deaf, grace string
		signal            syscall.Signal
		status            int
		text              string
	}{
		{"is forwarded", "", "1h", syscall.SIGINT, 0, "got interrupt\n"},
		{"ends a guest that ignores it", "1", "10ms", syscall.SIGINT, exitFailed, "not ended within 10ms"},
		{"by SIGQUIT prints stacks", "1", "1h", syscall.SIGQUIT, 2, "goroutine "},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := exec.Command(program, "-grace="+c.grace, binary, "-test.run=Inside")
			command.Dir = "testdata/inside"
			command.Env = append(os.Environ(), "WANT=hang", "DEAF="+c.deaf)
			output, all, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			command.Stdout, command.Stderr = all, all
			err = command.Start()
			all.Close()
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			lines := bufio.NewScanner(output)
			for lines.Scan() {
				fmt.Fprintln(&out, lines.Text())
				if lines.Text() == "hanging" {
					if err := command.Process.Signal(c.signal); err != nil {
						t.Fatal(err)
					}
				}
			}
			err = command.Wait()
			if got := command.ProcessState.ExitCode(); got != c.status || !strings.Contains(out.String(), c.text) {
				t.Errorf("exit status %d (%v), want %d, and %q in\n%s", got, err, c.status, c.text, out.String())
			}
		})
	}
}

func TestDisksByPathAndSize(t *testing.T) {
	program := umlexec(t)
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(program, "-mem=256M", "-disk="+file, "-disk=3M",
		"sh", "-c", "echo $GUEST_DISKS; blockdev --getsize64 $GUEST_DISKS").CombinedOutput()
	if want := "/dev/ubda /dev/ubdb\n1048576\n3145728\n"; err != nil || string(output) != want {
		t.Errorf("got %v, %q; want %q", err, output, want)
	}
	if output, err := exec.Command(program, "-disk=/no/such/disk", "true").CombinedOutput(); err == nil || !bytes.Contains(output, []byte("want a size or a file")) {
		t.Errorf("missing disk: %v, %s", err, output)
	}
}

func TestWhich(t *testing.T) {
	program := umlexec(t)
	if output, err := exec.Command(program, "-which").CombinedOutput(); err != nil || !bytes.HasPrefix(output, []byte("in User-Mode-Linux guests: ")) {
		t.Errorf("got %v, %q", err, output)
	}
	output, err := exec.Command(program, "-which", "-kernel=/no/such/kernel").CombinedOutput()
	if err == nil || !bytes.Contains(output, []byte("install the package user-mode-linux")) {
		t.Errorf("missing kernel: got %v, %q", err, output)
	}
	want := "in User-Mode-Linux guests"
	if deviceMapper() == nil {
		want = "on this machine"
	}
	output, err = exec.Command(program, "-native", "-which").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(output), want) {
		t.Errorf("-native: got %v, %q; want %q", err, output, want)
	}
}
