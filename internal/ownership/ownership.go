package ownership

import (
	"context"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Permissions added for the group.
const (
	permWrite  fs.FileMode = 0o660
	permRead   fs.FileMode = 0o440
	permSearch fs.FileMode = 0o110
)

// NeedsChange reports whether the group of the files below dir must be changed. With the policy
// OnRootMismatch it must only if dir itself has another group or lacks permissions; otherwise
// always. It does not look below dir.
//
// Upstream: pkg/volume skipPermissionChange, requiresPermissionChange (v1.36).
func NeedsChange(disk nodefs.Reader, dir string, group int64,
	policy *corev1.PodFSGroupChangePolicy, readOnly bool,
) bool {
	if policy == nil || *policy != corev1.FSGroupChangeOnRootMismatch {
		return true
	}
	info, err := disk.Stat(dir)
	if err != nil || !info.Mode.IsDir() || int64(info.GID) != group {
		return true
	}
	want := permissions(info.Mode, readOnly)
	return info.Mode&want != want
}

// permissions returns the permissions that the group needs. Files created in a directory inherit
// the group.
func permissions(mode fs.FileMode, readOnly bool) fs.FileMode {
	want := permWrite
	if readOnly {
		want = permRead
	}
	if mode.IsDir() {
		want |= fs.ModeSetgid | permSearch
	}
	return want
}

// Apply changes the group of dir and everything below it, dir last: after an interruption dir is
// unchanged. count counts the visited files and directories. A file system's refusal for one of
// them is only logged. An error means that dir could not be read completely.
//
// Upstream: pkg/volume VolumeOwnership.changePermissionsRecursively, changeFilePermission (v1.36).
func Apply(ctx context.Context, disk nodefs.FS, dir string, group int64, readOnly bool, count *atomic.Int64) error {
	g := applier{log: logr.FromContextOrDiscard(ctx), disk: disk, group: int(group), readOnly: readOnly, count: count}
	return g.walk(dir)
}

// An applier is one Apply.
type applier struct {
	log      logr.Logger
	disk     nodefs.FS
	group    int
	readOnly bool
	count    *atomic.Int64
}

func (g applier) walk(file string) error {
	info, err := g.disk.Stat(file)
	if err != nil {
		return err
	}
	if info.Mode.IsDir() {
		names, err := g.disk.ReadDir(file)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := g.walk(path.Join(file, name)); err != nil {
				return err
			}
		}
	}
	g.apply(file, info.Mode)
	return nil
}

// apply changes the group of one file or directory. A symbolic link has no permissions of its own.
func (g applier) apply(file string, mode fs.FileMode) {
	g.count.Add(1)
	if err := g.disk.Chown(file, -1, g.group); err != nil {
		g.log.Error(err, "change group", "path", file, "group", g.group)
	}
	if mode&fs.ModeSymlink != 0 {
		return
	}
	const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if err := g.disk.Chmod(file, mode&settable|permissions(mode, g.readOnly)); err != nil {
		g.log.Error(err, "change mode", "path", file, "group", g.group)
	}
}
