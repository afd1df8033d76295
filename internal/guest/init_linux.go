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
)

// What is the guest's own: the line to the outside, and where its programs find room.
const (
	lineNode     = "/dev/tty1"
	guestTempDir = "/run/tmp"
	systemPath   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Exit statuses of a command that could not be run, as shells have them.
const (
	exitNotFound   = 127
	exitSignalBase = 128 // and the signal's number
)

// Main returns at once, unless this process is process 1 of a guest, or a guest's keeper: then it does what that does, and
// never returns. Programs that start guests call it before anything else, tests in TestMain.
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
		// All is told; who heard it takes the power.
		_ = unix.Pause()
	}
}

// serve runs the job, and tells what came of it on the line. What it cannot tell there it panics with: the kernel's panic,
// which ends with process 1, takes the words outside.
func serve(file string) {
	line, err := openLine()
	if err != nil {
		panic(err)
	}
	to := &frameWriter{line: line}
	must(to.writeFrame(frameBooted, nil))
	code, err := run(file, to, line)
	if err != nil {
		must(to.writeFrame(startFailed, []byte(err.Error())))
	} else {
		must(to.writeFrame(exited, []byte{byte(code >> 24), byte(code >> 16), byte(code >> 8), byte(code)}))
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
	if err := bringUpLoopback(); err != nil {
		return 0, err
	}
	code, err = runCommand(j, to, line)
	unmountDisks()
	unix.Sync()
	return code, err
}

// openLine opens the terminal that leads outside, and makes it pass bytes as they are. It stays a blocking file: what is
// written and read on it are short words of a strand of their own.
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

// mountOwn mounts what the guest has of its own on the read-only root.
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

// mountWritable mounts folders of this machine over themselves, writable.
func mountWritable(folders []string) error {
	for _, folder := range folders {
		if err := unix.Mount("none", folder, "hostfs", 0, folder); err != nil {
			return fmt.Errorf("make %s writable in the guest: %w", folder, err)
		}
	}
	return nil
}

// bringUpLoopback lets the guest's programs talk to one another at 127.0.0.1.
func bringUpLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	return nil
}

// runCommand runs the job's command to its end, and ends whatever it left running.
func runCommand(j *job, to *frameWriter, line *os.File) (int, error) {
	for _, pair := range j.Env {
		if name, value, ok := strings.Cut(pair, "="); ok && name == "PATH" {
			if err := os.Setenv("PATH", value); err != nil { // where it is looked for, too
				return 0, err
			}
		}
	}
	if err := os.Chdir(j.Dir); err != nil { // where it is looked for
		return 0, err
	}
	program, err := exec.LookPath(j.Command[0])
	if err != nil {
		return exitNotFound, to.writeFrame(stderr, []byte(err.Error()+"\n"))
	}
	files, copied, err := openOutputs(to, j.Merged)
	if err != nil {
		return 0, err
	}
	process, err := os.StartProcess(program, j.Command, &os.ProcAttr{
		Dir: j.Dir, Env: j.Env, Files: files, Sys: &unix.SysProcAttr{Setsid: true},
	})
	for _, file := range files {
		file.Close() // the process has its own
	}
	if err != nil {
		return exitNotFound, to.writeFrame(stderr, []byte(err.Error()+"\n"))
	}
	go passSignals(line, process)
	status, err := reapUntil(process.Pid)
	if err != nil {
		return 0, err
	}
	// What still runs holds the outputs open, and may hold disks.
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return 0, fmt.Errorf("end what the command left: %w", err)
	}
	if err := copied(); err != nil {
		return 0, fmt.Errorf("what the command wrote: %w", err)
	}
	if status.Signaled() {
		return exitSignalBase + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// openOutputs opens the standard files of a command, and sends what it writes; copied waits until all was sent. Merged are
// both outputs one, so that what comes first is sent first.
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
	for _, k := range []frameKind{stdout, stderr} {
		if k == stderr && merged {
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

// passSignals gives the command the signals that come from outside, each a byte.
func passSignals(line *os.File, to *os.Process) {
	var number [1]byte
	for {
		if n, err := line.Read(number[:]); err != nil || n == 0 {
			return
		}
		// A command that has ended needs no signal.
		_ = to.Signal(unix.Signal(number[0]))
	}
}

// reapUntil waits for the command, and meanwhile does what process 1 owes to orphans.
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

// unmountDisks unmounts the file systems that are on devices, the last mounted first; what cannot be is left: its journal
// will be replayed.
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
