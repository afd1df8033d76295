//go:build linux && (amd64 || arm64)

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet/container"
)

// TestEscapes has scripts that try to reach the machine. PID stands for the number of this program.
func TestEscapes(t *testing.T) {
	const (
		notPermitted = "Operation not permitted\n"
		readOnly     = "Read-only file system\n"
	)
	node := newWorld(t)
	inherited, err := unix.Open("/", unix.O_RDONLY, 0) // without close-on-exec
	testcheck.NoError(t, err)
	t.Cleanup(func() { unix.Close(inherited) })
	for i, c := range []struct {
		name, script string
		want         result
	}{
		{"absolute link", "ln -s /etc/shadow /a/l; cat /a/l", result{"", "cat: can't open '/a/l': No such file or directory\n", 1}},
		{"link to a sibling", "ln -s ../secret/key /a/l; cat /a/l", result{"", "cat: can't open '/a/l': No such file or directory\n", 1}},
		{"parents", "cat /a/../../../../etc/shadow ../../etc/shadow 2>&1 | grep -c 'No such'", ok("2\n")},
		{"parents of the volume", "cd /a/nested/../..; pwd; ls -d secret", result{"/\n", "ls: secret: No such file or directory\n", 1}},
		{"processes", "echo /proc/[0-9]*", ok("/proc/1\n")},
		{"parent of process 1", "grep PPid /proc/1/status | tr -d '\\t'", ok("PPid:0\n")},
		{"signal", "kill -9 PID", result{"", "sh: can't kill pid PID: No such process\n", 1}},
		{"signal to all", "kill -9 -1; echo alive", result{"alive\n", "sh: can't kill pid -1: No such process\n", 0}},
		{"sysrq", "echo h >/proc/sysrq-trigger", result{"", "sh: can't create /proc/sysrq-trigger: " + readOnly, 1}},
		{"sysctl", "x=$(cat /proc/sys/kernel/panic); echo $x >/proc/sys/kernel/panic", result{"", "sh: can't create /proc/sys/kernel/panic: " + readOnly, 1}},
		{"core pattern", "x=$(cat /proc/sys/kernel/core_pattern); echo $x >/proc/sys/kernel/core_pattern", result{"", "sh: can't create /proc/sys/kernel/core_pattern: " + readOnly, 1}},
		{"memory of the machine", "cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c", ok("0\n")},
		{"uncover", "umount /proc/keys; umount /proc/sys", result{"", "umount: can't unmount /proc/keys: " + notPermitted + "umount: can't unmount /proc/sys: " + notPermitted, 1}},
		{"remount", "mount -o remount,rw /ro; echo x >/ro/f", result{"", "mount: permission denied (are you root?)\nsh: can't create /ro/f: " + readOnly, 1}},
		{"mount", "mount -t tmpfs none /mnt", result{"", "mount: permission denied (are you root?)\n", 1}},
		{"proc of another", "mount -t proc none /mnt", result{"", "mount: permission denied (are you root?)\n", 1}},
		{"block device", "mknod /tmp/d b 254 0", result{"", "mknod: /tmp/d: " + notPermitted, 1}},
		{"memory device", "mknod /dev/mem c 1 1", result{"", "mknod: /dev/mem: " + notPermitted, 1}},
		{"device in a volume", "mknod /a/d b 254 0", result{"", "mknod: /a/d: " + notPermitted, 1}},
		{"chroot", "chroot /a /bin/sh", result{"", "chroot: can't change root directory to '/a': " + notPermitted, 1}},
		{"user namespace", "unshare -U true", result{"", "unshare: unshare(0x10000000): " + notPermitted, 1}},
		{"mount namespace", "unshare -m true", result{"", "unshare: unshare(0x20000): " + notPermitted, 1}},
		{"namespaces of process 1", "nsenter -t 1 -m true", result{"", "nsenter: setns(): can't reassociate to namespace 'mnt': " + notPermitted, 1}},
		{"host name", "hostname other", result{"", "hostname: sethostname: " + notPermitted, 1}},
		{"clock", "date -s 2020-01-01 >/dev/null", result{"", "date: can't set date: " + notPermitted, 0}},
		{"reboot", "reboot -f 2>&1 | grep -c 'Operation not permitted'", ok("1\n")},
		{"log of the kernel", "dmesg", result{"", "dmesg: klogctl: " + notPermitted, 1}},
		{"network", "ifconfig -a | grep -c encap; ip route | wc -l", ok("1\n0\n")},
		{"raw socket", "ping -c 1 127.0.0.1 >/dev/null", result{"", "ping: permission denied (are you root?)\n", 1}},
		{"programs", "echo x >/bin/sh; echo x >/.init; rm /.init", result{"", "sh: can't create /bin/sh: " + readOnly + "sh: can't create /.init: " + readOnly + "rm: can't remove '/.init': Device or resource busy\n", 1}},
		{"running program", "echo x >/proc/1/exe", result{"", "sh: can't create /proc/1/exe: " + readOnly, 1}},
		{"cgroups", "ls /sys", result{"", "ls: /sys: No such file or directory\n", 1}},
		{"capabilities", "grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status | cut -f 2 | uniq; grep NoNewPrivs /proc/self/status | cut -f 2", ok("00000000000005fb\n1\n")},
		{"cores", "ulimit -c; cat /proc/self/oom_score_adj", ok("0\n1000\n")},
		{"descriptors", "ls /proc/self/fd", ok("0\n1\n2\n3\n")},
		{
			"mounts", "cut -d' ' -f2 /proc/mounts | grep -v ^/proc/ | sort; grep ' /a ' /proc/mounts | grep -c nosuid,nodev",
			ok("/\n/.init\n/a\n/a/nested\n/bin\n/dev\n/dev/pts\n/dev/shm\n/proc\n/ro\n1\n"),
		},
		{"shared memory", "ls /dev/shm; ipcs 2>/dev/null; df /tmp /dev | tail -n 2 | awk '{print $2}'", ok("102400\n64\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := node.part(t, fmt.Sprintf("pod-%d", i))
			if _, err := os.Stat("/proc/sysrq-trigger"); err != nil && c.name == "sysrq" {
				t.Skip(err)
			}
			number := strings.NewReplacer("PID", strconv.Itoa(os.Getpid()))
			script := number.Replace(c.script)
			want := c.want
			want.Stderr = number.Replace(want.Stderr)
			testcheck.Equal(t, "result of the run", want, w.finish(t, w.shell(script)))

			if c.name == "parent of process 1" || c.name == "processes" || c.name == "signal to all" {
				return
			}
			other := w.spec("other", "sh", "-c", "rm -f /a/l; echo up; sleep 1d")
			w.begin(t, other)
			testcheck.Equal(t, "result of the execution", want, w.execute(t, other.Run, "", "sh", "-c", script))
		})
	}
}

// TestSourcesStayInTheNode: a link in a volume does not lead a mount out of the node's directory.
func TestSourcesStayInTheNode(t *testing.T) {
	w := newWorld(t)
	testcheck.NoError(t, os.Symlink("/etc", w.path("a/etc")), os.Symlink(w.path("secret"), w.path("a/inside")))
	for i, c := range []struct{ name, source, want string }{
		{"link out", w.path("a/etc"), "is outside the node's directory"},
		{"link inside", w.path("a/inside"), ""},
		{"parents", w.path("a") + "/../../../../../../../../etc", "is outside the node's directory"},
		{"machine", "/etc", "is outside the node's directory"},
		{"node itself", w.root, "is outside the node's directory"},
		{"missing", w.path("none"), "no such file or directory"},
	} {
		s := w.spec("main", "cat", "/v/key")
		s.Restarts, s.Mounts = int32(i), []container.Mount{{Path: "/v", Source: c.source}} //nolint:gosec // a count
		got := w.finish(t, s)
		if c.want == "" {
			testcheck.Equal(t, c.name, ok("secret\n"), got)
			continue
		}
		if got.Code != 128 || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestMountPointsStayInTheRoot: a link in a volume does not lead a nested mount out of the root directory.
func TestMountPointsStayInTheRoot(t *testing.T) {
	w := newWorld(t)
	target := t.TempDir()
	testcheck.NoError(t, os.Symlink(target, w.path("a/l")), os.Symlink("../../../../../../../..", w.path("a/up")))
	s := w.shell("cat /v/key; cat /a/l/key; cat /made/key")
	s.Mounts = []container.Mount{
		{Path: "/a", Source: w.path("a")},
		{Path: "/a/up/made", Source: w.path("secret")},
		{Path: "/v", Source: w.path("secret")},
	}
	got := w.finish(t, s)
	testcheck.Equal(t, "result", result{"secret\nsecret\n", "cat: can't open '/a/l/key': No such file or directory\n", 0}, got)
	testcheck.Equal(t, "entries of the machine's directory", 0, len(testcheck.Must(os.ReadDir(target))))
}

// TestInterpreterIsNotThisProgram: a script whose interpreter is the program that starts it gets busybox.
func TestInterpreterIsNotThisProgram(t *testing.T) {
	w := newWorld(t)
	testcheck.NoError(t, os.WriteFile(w.path("a/script"), []byte("#!/proc/self/exe\n"), 0o700)) //nolint:gosec // a program
	testcheck.Equal(t, "run", result{"", "exec /a/script: no such file or directory", 128}, w.finish(t, w.spec("main", "/a/script")))
	other := w.spec("other", "sh", "-c", "echo up; sleep 1d")
	w.begin(t, other)
	testcheck.Equal(t, "execution", result{"", "exe: applet not found\n", 127}, w.execute(t, other.Run, "", "/a/script"))
	for _, command := range []string{"/proc/self/exe", "/proc/self/fd/3"} {
		got := w.execute(t, other.Run, "", command)
		if got.Code != 127 || !strings.Contains(got.Stderr, "no such file or directory") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

func TestWorkingDirectoryIsNoDescriptor(t *testing.T) {
	w := newWorld(t)
	s := w.shell("echo up; sleep 1d")
	s.WorkingDir = "/proc/self/fd/3"
	w.begin(t, s)
	got := w.execute(t, s.Run, "", "pwd")
	if got.Code == 0 || !strings.Contains(got.Stderr, "mkdir /proc/self") {
		t.Errorf("execution: %+v", got)
	}
}

// TestDevicesOfTheMachineKeepTheirModes: a run's devices and streams are not the machine's.
func TestDevicesOfTheMachineKeepTheirModes(t *testing.T) {
	w := newWorld(t)
	before := testcheck.Must(os.Stat("/dev/null")).Mode()
	w.finish(t, w.shell("chmod 0 /dev/null /dev/zero /proc/self/fd/0; true"))
	s := w.spec("other", "sh", "-c", "echo up; sleep 1d")
	w.begin(t, s)
	e := testcheck.Must(w.runtime.Exec(s.Run, []string{"chmod", "0", "/proc/self/fd/0", "/dev/null"}, container.Streams{}))
	<-e.Done
	testcheck.Equal(t, "mode of /dev/null", before, testcheck.Must(os.Stat("/dev/null")).Mode())
}

// TestForkBomb: the limit of processes contains it, and KILL ends it.
func TestForkBomb(t *testing.T) {
	w := newWorld(t)
	bomb := w.shell("f() { f & f & }; echo up; f; sleep 1d")
	w.begin(t, bomb)
	testcheck.NoError(t, exec.Command("true").Run())
	other := w.spec("other", "echo", "fine")
	testcheck.Equal(t, "another run", ok("fine\n"), w.finish(t, other))
	w.runtime.Stop(bomb.Run, 0)
	w.ended(t, bomb.Run)
	testcheck.Equal(t, "code", exitKilled, w.runtime.State(bomb.Run).Code)
}

func TestProcessesAreLimited(t *testing.T) {
	w := newWorld(t)
	got := w.finish(t, w.shell("i=0; while [ $i -lt 400 ]; do sleep 1d & i=$((i+1)); done; echo all"))
	if got.Code == 0 || !strings.Contains(got.Stderr, "can't fork: Resource temporarily unavailable") {
		t.Errorf("400 processes: %+v", got)
	}
}

// TestMemoryBomb: the kernel kills a process of the run, and none of another.
func TestMemoryBomb(t *testing.T) {
	w := newWorld(t)
	other := w.spec("other", "sh", "-c", "echo up; sleep 1d")
	w.begin(t, other)
	bomb := w.shell("x=0123456789abcdef; while :; do x=$x$x; done")
	bomb.Memory = 32 << 20
	testcheck.Equal(t, "bomb", result{Code: exitKilled}, w.finish(t, bomb))
	testcheck.Equal(t, "another run", ok("fine\n"), w.execute(t, other.Run, "", "echo", "fine"))
}

// TestFilesAreLimited: the root directory is in memory, so its size is limited.
func TestFilesAreLimited(t *testing.T) {
	w := newWorld(t)
	got := w.finish(t, w.shell("dd if=/dev/zero of=/tmp/f bs=1M count=200 2>&1 | grep -c 'No space left'"))
	testcheck.Equal(t, "result", ok("1\n"), got)
}

// TestLogIsBounded: a command that writes 100 MB takes no more memory than its log may.
func TestLogIsBounded(t *testing.T) {
	w := newWorld(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got := w.finish(t, w.shell("yes 0123456789 | head -c 100000000; echo; echo end"))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(got.Stdout) > 1<<20+64<<10 || !strings.HasSuffix(got.Stdout, "\nend\n") {
		t.Errorf("the log has %d bytes", len(got.Stdout))
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 { //nolint:gosec // sizes
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// TestPrivileged: a privileged run may mount, in its namespace only.
func TestPrivileged(t *testing.T) {
	w := newWorld(t)
	before := w.mounts(t)
	s := w.shell("mount -t tmpfs none /a && mknod /dev/d b 254 0 && echo done; sleep 1d & echo up; wait")
	s.Privileged = true
	w.begin(t, s)
	testcheck.Equal(t, "mounts of the machine", before, w.mounts(t))
	testcheck.Equal(t, "execution", ok("1\n"), w.execute(t, s.Run, "", "sh", "-c", "grep -c '^none /a tmpfs' /proc/mounts"))
	w.runtime.Stop(s.Run, 0)
	w.ended(t, s.Run)
	stdout, stderr := texts(w.runtime.Log(s.Run))
	testcheck.Equal(t, "output", result{Stdout: "done\nup\n"}, result{Stdout: stdout, Stderr: stderr})
}

// TestDevice gives a run a loop device.
func TestDevice(t *testing.T) {
	w := newWorld(t)
	testcheck.NoError(t, os.WriteFile(w.path("image"), []byte(strings.Repeat("x", 1<<20)), 0o600))
	out, err := exec.Command("losetup", "-f", "--show", w.path("image")).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	loop := strings.TrimSpace(string(out))
	t.Cleanup(func() { testcheck.NoError(t, exec.Command("losetup", "-d", loop).Run()) })
	testcheck.NoError(t, os.Symlink(loop, w.path("device")))
	for i, at := range []string{"/dev/xvda", "/disk"} {
		s := w.shell(fmt.Sprintf("blockdev --getsize64 %[1]s; head -c 2 %[1]s; echo y | dd of=%[1]s conv=notrunc status=none; head -c 2 %[1]s; chmod 0 %[1]s", at))
		s.Restarts, s.Devices = int32(i), []container.Device{{Path: at, Source: w.path("device")}} //nolint:gosec // a count
		got := w.finish(t, s)
		want := map[int]result{0: ok("1048576\nxxy\n"), 1: ok("1048576\ny\ny\n")}[i]
		testcheck.Equal(t, at, want, got)
	}
	if mode := testcheck.Must(os.Stat(loop)).Mode().Perm(); mode == 0 {
		t.Errorf("the mode of %s is %v", loop, mode)
	}
}
