//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/kubelet/container"
)

// Sizes of a run's file systems in memory, which its memory limit includes.
const (
	rootOptions   = "size=100m,nr_inodes=20000,mode=0755"
	devOptions    = "size=64k,nr_inodes=200,mode=0755"
	sharedOptions = "size=64m,mode=1777"
)

// trustedProgram is a busybox that no process of a run can replace. What this program starts in the namespaces of
// a run begins with it: an interpreter such as /proc/self/exe is then busybox, not this program.
const trustedProgram = "/.init"

// rootDirectories are the directories of a new root directory, with their modes.
var rootDirectories = []struct {
	name string
	mode uint32
}{
	{"bin", 0o755},
	{"dev", 0o755},
	{"etc", 0o755},
	{"home", 0o755},
	{"mnt", 0o755},
	{"opt", 0o755},
	{"proc", 0o555},
	{"root", 0o700},
	{"run", 0o755},
	{"tmp", 0o1777},
	{"usr", 0o755},
	{"var", 0o755},
}

// A volume is a mount of a run that is not mounted yet.
type volume struct {
	container.Mount
	tree      int
	directory bool
}

// A root is what a run sees of files.
type root struct {
	spec     *container.Spec
	template *template
	volumes  []volume
	devices  []device
}

// A device is a block device of a run.
type device struct {
	path   string
	number uint64
}

// build makes the root directory in a mount namespace of the calling thread, and enters it. null is the
// run's /dev/null.
func (r *root) build() (null int, err error) {
	dir, err := newFileSystem("tmpfs", plainMount, strings.Split(rootOptions, ",")...)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	if err := attachAt(dir, unix.AT_FDCWD, templateRoot); err != nil {
		return -1, err
	}
	if err := r.fill(dir); err != nil {
		return -1, err
	}
	if err := r.addPrograms(dir); err != nil {
		return -1, err
	}
	dev, err := fillDev(dir)
	if err != nil {
		return -1, fmt.Errorf("make /dev: %w", err)
	}
	defer unix.Close(dev)
	if err := enterRoot(dir); err != nil {
		return -1, err
	}
	if null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err := r.addVolumes(dir, dev); err != nil {
		unix.Close(null)
		return -1, err
	}
	return null, nil
}

// addVolumes mounts volumes and devices.
func (r *root) addVolumes(dir, dev int) error {
	for _, v := range r.volumes {
		if err := v.mount(dir); err != nil {
			return fmt.Errorf("mount %s: %w", v.Path, err)
		}
	}
	for _, d := range r.devices {
		if err := d.mount(dir, dev); err != nil {
			return fmt.Errorf("device %s: %w", d.path, err)
		}
	}
	if !r.spec.ReadOnly {
		return nil
	}
	return unix.MountSetattr(dir, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// fill makes the files of a root directory.
func (r *root) fill(dir int) error {
	for _, d := range rootDirectories {
		if err := unix.Mkdirat(dir, d.name, d.mode&0o777); err != nil {
			return fmt.Errorf("mkdir /%s: %w", d.name, err)
		}
	}
	if err := unix.Fchmodat(dir, "tmp", 0o1777, 0); err != nil {
		return err
	}
	for _, link := range [][2]string{{"bin", "sbin"}, {"../bin", "usr/bin"}, {"../bin", "usr/sbin"}} {
		if err := unix.Symlinkat(link[0], dir, link[1]); err != nil {
			return fmt.Errorf("link /%s: %w", link[1], err)
		}
	}
	hostname := r.spec.Hostname
	for _, file := range [][2]string{
		{"etc/group", "root:x:0:\nnogroup:x:65534:\n"},
		{"etc/hostname", hostname + "\n"},
		{"etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.0.1\t" + hostname + "\n"},
		{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"},
		{"etc/resolv.conf", "search svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"},
		{trustedProgram[1:], ""},
	} {
		if err := writeFile(dir, file[0], []byte(file[1]), 0o644); err != nil {
			return fmt.Errorf("write /%s: %w", file[0], err)
		}
	}
	return nil
}

// writeFile makes a file. Nothing is forked meanwhile: a child would keep the file open until its exec, so that it could
// not be executed, and its mount not be made read-only.
func writeFile(dir int, name string, content []byte, mode uint32) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	for len(content) > 0 && err == nil {
		var n int
		n, err = unix.Write(file, content)
		content = content[max(n, 0):]
	}
	return errors.Join(err, unix.Close(file))
}

// addPrograms mounts busybox.
func (r *root) addPrograms(dir int) error {
	for _, at := range [][2]string{
		{templatePrograms, "bin"}, {templatePrograms + "/busybox", trustedProgram[1:]},
	} {
		tree, err := cloneTree(unix.AT_FDCWD, at[0]) // read-only, as in the template
		if err != nil {
			return err
		}
		err = attachAt(tree, dir, at[1])
		unix.Close(tree)
		if err != nil {
			return err
		}
	}
	return nil
}

// fillDev mounts a /dev.
func fillDev(dir int) (dev int, err error) {
	dev, err = newFileSystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, strings.Split(devOptions, ",")...)
	if err != nil {
		return -1, err
	}
	if err := makeDev(dir, dev); err != nil {
		unix.Close(dev)
		return -1, err
	}
	return dev, nil
}

func makeDev(dir, dev int) error {
	if err := attachAt(dev, dir, "dev"); err != nil {
		return err
	}
	for _, node := range []struct {
		name         string
		major, minor uint32
	}{
		{"null", 1, 3},
		{"zero", 1, 5},
		{"full", 1, 7},
		{"random", 1, 8},
		{"urandom", 1, 9},
		{"tty", 5, 0},
	} {
		if err := unix.Mknodat(dev, node.name, unix.S_IFCHR, int(unix.Mkdev(node.major, node.minor))); err != nil {
			return fmt.Errorf("mknod %s: %w", node.name, err)
		}
		if err := unix.Fchmodat(dev, node.name, 0o666, 0); err != nil {
			return err
		}
	}
	for _, link := range [][2]string{
		{"/proc/self/fd", "fd"},
		{"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"},
		{"pts/ptmx", "ptmx"},
	} {
		if err := unix.Symlinkat(link[0], dev, link[1]); err != nil {
			return err
		}
	}
	for _, fs := range []struct{ name, kind, options string }{
		{"shm", "tmpfs", sharedOptions}, {"pts", "devpts", "ptmxmode=0666,mode=0620"},
	} {
		if err := unix.Mkdirat(dev, fs.name, 0o755); err != nil {
			return err
		}
		attributes := plainMount | unix.MOUNT_ATTR_NOEXEC
		if fs.kind == "devpts" {
			attributes &^= unix.MOUNT_ATTR_NODEV
		}
		tree, err := newFileSystem(fs.kind, attributes, strings.Split(fs.options, ",")...)
		if err != nil {
			return err
		}
		err = attachAt(tree, dev, fs.name)
		unix.Close(tree)
		if err != nil {
			return err
		}
	}
	return nil
}

// mount mounts a volume below the root directory, and makes its mount point.
func (v volume) mount(root int) error {
	open := makeFile
	if v.directory {
		open = makeDirectory
	}
	at, err := open(root, v.Path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attach(v.tree, at)
}

// mount makes a node of the device, so that nothing changes the node's, and binds it.
func (d device) mount(root, dev int) error {
	const name = ".device"
	if err := unix.Mknodat(dev, name, unix.S_IFBLK|0o660, int(d.number)); err != nil { //nolint:gosec // as the kernel takes it
		return fmt.Errorf("mknod: %w", err)
	}
	defer unix.Unlinkat(dev, name, 0)
	tree, err := cloneTree(dev, name)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	at, err := makeFile(root, d.path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attach(tree, at)
}

// checkMountPoint returns an error for a mount point that a run needs itself.
func checkMountPoint(name string) error {
	if name == "/" || name == trustedProgram || name == "/proc" || strings.HasPrefix(name, "/proc/") ||
		!path.IsAbs(name) || path.Clean(name) != name {
		return fmt.Errorf("nothing can be mounted at %q", name)
	}
	return nil
}
