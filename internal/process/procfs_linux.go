//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// What the processes of a run do not see of /proc, or cannot change. Entries that the kernel does not have are skipped.
//
// Upstream: containerd's default masked and read-only paths.
var (
	hiddenFiles = []string{
		"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/slabinfo", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
		"/proc/interrupts", "/proc/pagetypeinfo",
	}
	readOnlyPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/mtrr", "/proc/pressure",
		"/proc/scsi", "/proc/sys", "/proc/sysrq-trigger",
	}
)

// mountProc mounts /proc of the processes of a run. Only a process among them can, so a thread that has entered
// their namespaces starts one.
func (t *template) mountProc(process int, privileged bool) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- t.mountProcInThread(process, privileged)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func (t *template) mountProcInThread(process int, privileged bool) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(t.namespace, unix.CLONE_NEWNS); err != nil {
		return err
	}
	nulls, err := cloneNulls(len(hiddenFiles))
	defer func() {
		for _, null := range nulls {
			unix.Close(null)
		}
	}()
	if err != nil {
		return err
	}
	if err := unix.Setns(process, unix.CLONE_NEWNS|unix.CLONE_NEWPID); err != nil {
		return err
	}
	if err := runMount(); err != nil {
		return err
	}
	defer unix.Setns(t.machine, unix.CLONE_NEWNS)
	if privileged {
		return nil
	}
	for i, name := range hiddenFiles {
		if err := attachAt(nulls[i], unix.AT_FDCWD, name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, name := range readOnlyPaths {
		if err := makeReadOnly(name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// cloneNulls returns mounts of a device without content.
func cloneNulls(n int) ([]int, error) {
	var nulls []int
	for range n {
		null, err := cloneTree(unix.AT_FDCWD, templateNull)
		if err != nil {
			return nulls, err
		}
		nulls = append(nulls, null)
		attributes := unix.MountAttr{Attr_set: readOnlyMount &^ unix.MOUNT_ATTR_NODEV}
		if err := unix.MountSetattr(null, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
			return nulls, err
		}
	}
	return nulls, nil
}

// runMount lets busybox mount /proc.
func runMount() error {
	null, err := os.OpenFile(trustedProgram, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	fd := null.Fd()
	pid, err := syscall.ForkExec(trustedProgram, []string{"mount", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", "/proc"},
		&syscall.ProcAttr{Dir: "/", Files: []uintptr{fd, fd, fd}})
	if err != nil {
		return err
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("busybox mount: status %#x", uint32(status))
	}
	return err
}

// makeReadOnly binds a directory or file to itself, read-only.
func makeReadOnly(name string) error {
	tree, err := cloneTree(unix.AT_FDCWD, name)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := isolate(tree, readOnlyMount|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	return attachAt(tree, unix.AT_FDCWD, name)
}
