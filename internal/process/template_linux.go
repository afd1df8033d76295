//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A template is a mount namespace with nothing but busybox. The mount namespaces of containers begin
// as copies of it, so none of them holds a mount of the machine, not even while it is set up.
type template struct {
	namespace int // descriptor of it
	machine   int // descriptor of the machine's mount namespace
}

// The entries of a template.
const (
	templatePrograms = "/bin"  // busybox, and a link for each of its commands
	templateRoot     = "/root" // where a container's root directory is mounted until it is the root
	templateNull     = "/null" // a device that hides files
)

// newTemplate returns a template with a busybox.
func newTemplate(busybox string) (*template, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of %s: %w", busybox, err)
	}
	machine, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the machine's mount namespace: %w", err)
	}
	t := &template{machine: machine}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		made <- t.make(program, strings.Fields(string(list)))
	}()
	if err := <-made; err != nil {
		return nil, errors.Join(fmt.Errorf("mount namespace of containers: %w", err), unix.Close(machine))
	}
	return t, nil
}

// make makes the mount namespace, in a thread of its own.
func (t *template) make(program []byte, commands []string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	namespace, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := t.fill(program, commands); err != nil {
		return errors.Join(err, unix.Close(namespace))
	}
	t.namespace = namespace
	return nil
}

func (t *template) fill(program []byte, commands []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	unix.Umask(0o022)
	root, err := newFileSystem("tmpfs", unix.MOUNT_ATTR_NOSUID, "mode=0755", "size=1m")
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := attachAt(root, unix.AT_FDCWD, "/tmp"); err != nil {
		return err
	}
	if err := enterRoot(root); err != nil {
		return err
	}
	err = errors.Join(unix.Mkdir(templatePrograms, 0o755), unix.Mkdir(templateRoot, 0o755),
		unix.Mknod(templateNull, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	if err != nil {
		return err
	}
	programs, err := newFileSystem("tmpfs", plainMount, "mode=0755", "size=16m")
	if err != nil {
		return err
	}
	defer unix.Close(programs)
	if err := attachAt(programs, unix.AT_FDCWD, templatePrograms); err != nil {
		return err
	}
	if err := writeFile(unix.AT_FDCWD, templatePrograms+"/busybox", program, 0o755); err != nil {
		return err
	}
	for _, command := range commands {
		if err := unix.Symlink("busybox", templatePrograms+"/"+command); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return unix.MountSetattr(programs, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// enterRoot makes a mounted directory the root of the calling thread and its mount namespace, without what
// was mounted before.
func enterRoot(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return unix.Chdir("/")
}

// close releases the namespaces.
func (t *template) close() {
	unix.Close(t.namespace)
	unix.Close(t.machine)
}
