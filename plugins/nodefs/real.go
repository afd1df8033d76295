package nodefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	mountutils "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

var _ FS = (*Real)(nil)

// Real is a directory of this machine as the disk of one node, with mounts made by the kernel.
// Mounting needs root. Real keeps no state: each report is read from the kernel, so a Real can be
// recreated after a crash. All methods may be called concurrently. Create one with [NewReal].
type Real struct {
	root     string // as the caller spells it
	resolved string // root without symbolic links, as the kernel spells it
	mounter  mountutils.Interface
}

// NewReal returns the disk below root, an absolute path other than "/". It creates the directory if
// missing. Everything below it belongs to the node. On systems other than Linux NewReal returns an
// error.
func NewReal(root string) (*Real, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("nodefs: real mounts need Linux, this is %s", runtime.GOOS)
	}
	clean := filepath.Clean(root)
	if !filepath.IsAbs(root) || clean == "/" {
		return nil, fmt.Errorf("nodefs: root %q must be an absolute path other than /", root)
	}
	if err := os.MkdirAll(clean, 0o750); err != nil {
		return nil, fmt.Errorf("nodefs: create root: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(clean)
	if err != nil {
		return nil, fmt.Errorf("nodefs: resolve root: %w", err)
	}
	return &Real{root: clean, resolved: resolved, mounter: newMounter()}, nil
}

// MkdirAll implements FS.
func (r *Real) MkdirAll(name string) error {
	place, err := r.resolve(name)
	if err != nil {
		return err
	}
	return classify(os.MkdirAll(place, 0o750))
}

// Remove implements FS. It removes a symbolic link itself, not its target.
func (r *Real) Remove(name string) error {
	place, err := r.resolveEntry(name)
	if err != nil {
		return err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return err
	}
	if info.IsDir() {
		mounted, err := mountinfo.Mounted(place)
		if err != nil {
			return err
		}
		if mounted {
			return pathError("remove", name, ErrMounted)
		}
	}
	return classify(os.Remove(place))
}

// RemoveAll implements FS. The mount table is read first: a mount made below the path meanwhile is
// not protected.
func (r *Real) RemoveAll(name string) error {
	place, err := r.resolveEntry(name)
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(place))
	if err != nil {
		return fmt.Errorf("read the mount table: %w", err)
	}
	if len(mounts) > 0 {
		return pathError("remove", name, ErrMounted)
	}
	return classify(os.RemoveAll(place))
}

// WriteFile implements FS. It writes a temporary file and renames it. After a crash of the process
// the file has the old or the new content. After a crash of the machine it may have neither: like
// the kubelet, WriteFile does not call fsync.
func (r *Real) WriteFile(name string, data []byte) error {
	place, err := r.resolveEntry(name)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(place), ".volsim-*")
	if err != nil {
		return classify(err)
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Chmod(0o640), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), place)
	}
	if err != nil {
		return classify(errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// ReadFile implements FS.
func (r *Real) ReadFile(name string) ([]byte, error) {
	place, err := r.resolve(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(place)
}

// ReadDir implements FS.
func (r *Real) ReadDir(name string) ([]string, error) {
	place, err := r.resolve(name)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(place)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// Exists implements FS.
func (r *Real) Exists(name string) (bool, error) {
	place, err := r.resolve(name)
	if err == nil {
		_, err = os.Lstat(place)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// IsMountPoint implements FS.
func (r *Real) IsMountPoint(name string) (bool, error) {
	place, err := r.resolve(name)
	if err != nil || place == r.resolved {
		return false, err
	}
	return mountinfo.Mounted(place)
}

// Mounts implements FS.
func (r *Real) Mounts() ([]Mount, error) {
	rows, err := mountinfo.GetMounts(mountinfo.PrefixFilter(r.resolved))
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	var mounts []Mount
	for _, row := range rows {
		rest, below := strings.CutPrefix(row.Mountpoint, r.resolved+"/")
		if !below {
			continue
		}
		mounts = append(mounts, Mount{
			Path:     filepath.Join(r.root, rest),
			Source:   row.Source,
			FSType:   row.FSType,
			ReadOnly: hasOption(row.Options, "ro") || hasOption(row.VFSOptions, "ro"),
		})
	}
	sortMounts(mounts)
	return mounts, nil
}

// BindMount implements FS.
func (r *Real) BindMount(source, target string, readOnly bool) error {
	from, isDirectory, err := r.resolveExisting(source)
	if err != nil {
		return err
	}
	return r.bind(from, isDirectory, target, readOnly)
}

// bind binds a resolved source. The kernel needs two steps for a read-only bind; if the second
// fails, the first is undone.
func (r *Real) bind(from string, isDirectory bool, target string, readOnly bool) error {
	to, err := r.resolveMountTarget(target, isDirectory)
	if err != nil {
		return err
	}
	options := []string{"bind"}
	if readOnly {
		options = append(options, "ro")
	}
	before, err := r.depth(to)
	if err != nil {
		return err
	}
	if err := r.mounter.Mount(from, to, "", options); err != nil {
		if after, _ := r.depth(to); after > before {
			err = errors.Join(err, r.mounter.Unmount(to))
		}
		return fmt.Errorf("bind %s to %s: %w", from, target, err)
	}
	return nil
}

// FormatAndMount mounts the device at the existing directory target. It first formats an empty
// device and checks an existing file system. An empty fsType means ext4. When ctx ends, a running
// mkfs or fsck is killed. The error wraps mountutils.MountError where that package has a type for
// it.
//
// Upstream: k8s.io/mount-utils SafeFormatAndMount (v0.36).
func (r *Real) FormatAndMount(ctx context.Context, device, target, fsType string, options []string) error {
	return r.FormatWithAndMount(ctx, device, target, fsType, options, nil)
}

// FormatWithAndMount works like FormatAndMount with options for mkfs.
func (r *Real) FormatWithAndMount(
	ctx context.Context, device, target, fsType string, options, formatOptions []string,
) error {
	to, err := r.resolveMountTarget(target, true)
	if err != nil {
		return err
	}
	if _, err := r.DeviceOf(device); err != nil || !filepath.IsAbs(device) {
		return errors.Join(fmt.Errorf("mount %q at %s: not a device node of the machine", device, target), err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	formatter := mountutils.NewSafeFormatAndMount(r.mounter, contextExec{Interface: utilexec.New(), ctx: ctx})
	err = formatter.FormatAndMountSensitiveWithFormatOptions(device, to, fsType, slices.Clone(options), nil,
		slices.Clone(formatOptions))
	if err != nil {
		return fmt.Errorf("format and mount %s at %s: %w", device, target, errors.Join(ctx.Err(), err))
	}
	return nil
}

// Unmount implements FS.
func (r *Real) Unmount(name string) error {
	place, err := r.resolve(name)
	if err != nil {
		return err
	}
	if place == r.resolved {
		return pathError("unmount", name, ErrOutside)
	}
	mounted, err := mountinfo.Mounted(place)
	if err != nil {
		return err
	}
	if !mounted {
		return pathError("unmount", name, ErrNotMounted)
	}
	return r.unmount(name, place)
}

// UnmountAll releases every device lock and unmounts every mount below the root, deepest first. The
// error names each lock and mount that remains.
func (r *Real) UnmountAll() error {
	mounts, err := r.Mounts()
	if err != nil {
		return err
	}
	failed := []error{r.unlockAll()}
	for _, each := range slices.Backward(mounts) {
		rest, _ := relative(r.root, each.Path)
		if err := r.unmount(each.Path, filepath.Join(r.resolved, rest)); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// unmount calls umount. Only its message distinguishes a busy mount, so ErrBusy may be missing in a
// locale other than English.
func (r *Real) unmount(name, place string) error {
	err := r.mounter.Unmount(place)
	if err != nil && strings.Contains(err.Error(), "busy") {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return pathError("unmount", name, err)
}

// depth returns the number of mounts stacked on a resolved path.
func (r *Real) depth(place string) (int, error) {
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) {
		return row.Mountpoint != place,
			false
	})
	return len(rows), err
}

// contextExec runs commands that are killed when ctx ends. It lives for one call, because
// mount-utils takes no context.
type contextExec struct {
	utilexec.Interface
	ctx context.Context //nolint:containedctx
}

func (e contextExec) Command(name string, arguments ...string) utilexec.Cmd {
	return e.CommandContext(e.ctx, name, arguments...)
}

func hasOption(options, want string) bool { return slices.Contains(strings.Split(options, ","), want) }

// classify adds this package's sentinel error to a system error, where one applies.
func classify(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%w: %w", ErrNotEmpty, err)
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %w", ErrMounted, err)
	}
	return err
}
