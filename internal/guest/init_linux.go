package guest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopback"
)

// Paths in the guest: the line to the host, the temporary directory and the search path.
const (
	lineNode     = "/dev/tty1"
	guestTempDir = "/run/tmp"
	systemPath   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Exit statuses as shells define them.
const (
	exitNotFound   = 127
	exitSignalBase = 128 // plus the number of the signal
)

// Main returns at once, unless this process is process 1 or the supervisor of a guest; then it acts
// as such and never returns. Programs that start guests must call it before anything else; tests
// call it in TestMain.
func Main() {
	if folder := os.Getenv(supervisorVariable); folder != "" {
		if err := supervise(folder, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	file := os.Getenv(jobVariable)
	if os.Getpid() != 1 || file == "" {
		return
	}
	serve(file)
	for {
		// The host has the result and kills the guest.
		_ = unix.Pause()
	}
}

// serve runs the job and reports the result on the line. Errors of the line cause a panic: the
// kernel panics when process 1 ends, and its console reaches the host.
func serve(file string) {
	line, err := openLine()
	if err != nil {
		panic(err)
	}
	to := &frameWriter{line: line}
	must(to.writeFrame(frameBooted, nil))
	code, err := run(file, to, line)
	if err != nil {
		must(to.writeFrame(frameStartFailed, []byte(err.Error())))
	} else {
		must(to.writeFrame(frameExited, []byte{byte(code >> 24), byte(code >> 16), byte(code >> 8), byte(code)}))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func run(file string, to *frameWriter, line *os.File) (code int, err error) {
	if err := mountOwn(); err != nil {
		return 0, err
	}
	j, err := readJob(file)
	if err != nil {
		return 0, err
	}
	if err := mountWritable(j.Writable); err != nil {
		return 0, err
	}
	if err := loadModules(j.Modules); err != nil {
		return 0, err
	}
	if err := loopback.BringUp(); err != nil {
		return 0, err
	}
	code, err = runCommand(j, to, line)
	unmountDisks()
	unix.Sync()
	return code, err
}

// openLine opens the terminal to the host in raw mode. The file stays blocking: each goroutine on
// it does short reads or writes.
func openLine() (*os.File, error) {
	if err := unix.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("mount /dev: %w", err)
	}
	fd, err := unix.Open(lineNode, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: lineNode, Err: err}
	}
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, &fs.PathError{Op: "TCGETS", Path: lineNode, Err: err}
	}
	mode.Iflag, mode.Oflag, mode.Lflag = 0, 0, 0
	mode.Cflag |= unix.CS8
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, mode); err != nil {
		return nil, &fs.PathError{Op: "TCSETS", Path: lineNode, Err: err}
	}
	return os.NewFile(uintptr(fd), lineNode), nil
}

// mountOwn mounts the guest's own file systems over the read-only root.
func mountOwn() error {
	type mount struct{ kind, at, options string }
	for _, m := range []mount{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"tmpfs", "/run", "mode=0755"},
		{"tmpfs", "/dev/shm", "mode=1777"},
		{"devpts", "/dev/pts", "ptmxmode=0666"},
	} {
		if strings.HasPrefix(m.at, "/dev/") {
			if err := os.MkdirAll(m.at, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	if err := os.MkdirAll("/run/lock", 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(guestTempDir, 0o700); err != nil {
		return err
	}
	return os.Chmod(guestTempDir, 0o777|fs.ModeSticky)
}

// mountWritable mounts folders of the host over themselves, writable.
func mountWritable(folders []string) error {
	for _, folder := range folders {
		if err := unix.Mount("none", folder, "hostfs", 0, folder); err != nil {
			return fmt.Errorf("mount %s writable in the guest: %w", folder, err)
		}
	}
	return nil
}

// runCommand runs the job's command and kills the processes that it leaves running.
func runCommand(j *job, to *frameWriter, line *os.File) (int, error) {
	for _, pair := range j.Env {
		if name, value, ok := strings.Cut(pair, "="); ok && name == "PATH" {
			if err := os.Setenv("PATH", value); err != nil { // LookPath uses it
				return 0, err
			}
		}
	}
	if err := os.Chdir(j.Dir); err != nil { // LookPath uses it
		return 0, err
	}
	program, err := exec.LookPath(j.Command[0])
	if err != nil {
		return exitNotFound, to.writeFrame(frameStderr, []byte(err.Error()+"\n"))
	}
	files, copied, err := openOutputs(to, j.Merged)
	if err != nil {
		return 0, err
	}
	process, err := os.StartProcess(program, j.Command, &os.ProcAttr{
		Dir: j.Dir, Env: j.Env, Files: files, Sys: &unix.SysProcAttr{Setsid: true},
	})
	for _, file := range files {
		file.Close() // the process has inherited it
	}
	if err != nil {
		return exitNotFound, to.writeFrame(frameStderr, []byte(err.Error()+"\n"))
	}
	go passSignals(line, process)
	status, err := reapUntil(process.Pid)
	if err != nil {
		return 0, err
	}
	// Remaining processes keep the outputs open, and may use disks.
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return 0, fmt.Errorf("kill remaining processes: %w", err)
	}
	if err := copied(); err != nil {
		return 0, fmt.Errorf("copy output: %w", err)
	}
	if status.Signaled() {
		return exitSignalBase + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// openOutputs opens the standard files of a command and forwards its output as frames. The function
// copied waits until all output is forwarded. If merged, both outputs share one pipe, which
// preserves their order.
func openOutputs(to *frameWriter, merged bool) (files []*os.File, copied func() error, err error) {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	files = []*os.File{nothing}
	ended := make(chan error, 2)
	copied = func() error {
		var failed error
		for range cap(ended) {
			failed = errors.Join(failed, <-ended)
		}
		return failed
	}
	for _, k := range []frameKind{frameStdout, frameStderr} {
		if k == frameStderr && merged {
			files = append(files, files[len(files)-1])
			ended <- nil
			break
		}
		from, end, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		files = append(files, end)
		go func() {
			_, err := io.Copy(outputs{to, k}, from)
			ended <- err
		}()
	}
	return files, copied, nil
}

// passSignals sends the command the signals received on the line, one byte each.
func passSignals(line *os.File, to *os.Process) {
	var number [1]byte
	for {
		if n, err := line.Read(number[:]); err != nil || n == 0 {
			return
		}
		// Fails only if the command has ended.
		_ = to.Signal(unix.Signal(number[0]))
	}
}

// reapUntil waits for the command and reaps orphans in the meantime.
func reapUntil(command int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("wait4: %w", err)
		}
		if err == nil && ended == command {
			return status, nil
		}
	}
}

// unmountDisks unmounts the file systems on devices, in reverse order. It ignores failures:
// journals will be replayed.
func unmountDisks() {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Reverse(lines)
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.HasPrefix(fields[0], "/dev/") {
			_ = unix.Unmount(unescape.Replace(fields[1]), 0)
		}
	}
}
