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

// What a group may do, beside what was permitted before.
const (
	permWrite  fs.FileMode = 0o660
	permRead   fs.FileMode = 0o440
	permSearch fs.FileMode = 0o110
)

// NeedsChange tells whether the files below dir have to be given to the group: always, but by the policy OnRootMismatch only where
// dir itself is not the group's, or does not permit it what it needs. It does not look at what is below dir.
//
// Upstream: pkg/volume skipPermissionChange, requiresPermissionChange (v1.36).
func NeedsChange(disk nodefs.FS, dir string, group int64, policy *corev1.PodFSGroupChangePolicy, readOnly bool) bool {
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

// permissions are those that a group is to have of a file or a directory. Files that are made in a directory are to be the
// group's, too.
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

// Apply gives all that is at dir and below it to the group, dir last: who is interrupted finds dir as it was. count is how many
// files and directories were reached. What a file system refuses for one of them is only logged; an error says that dir could
// not be read to its end.
//
// Upstream: pkg/volume VolumeOwnership.changePermissionsRecursively, changeFilePermission (v1.36).
func Apply(ctx context.Context, disk nodefs.FS, dir string, group int64, readOnly bool, count *atomic.Int64) error {
	g := applier{log: logr.FromContextOrDiscard(ctx), disk: disk, group: int(group), readOnly: readOnly, count: count}
	return g.walk(dir)
}

// applier is one Give.
type applier struct {
	log      logr.Logger
	disk     nodefs.FS
	group    int
	readOnly bool
	count    *atomic.Int64
}

func (g applier) walk(at string) error {
	info, err := g.disk.Stat(at)
	if err != nil {
		return err
	}
	if info.Mode.IsDir() {
		names, err := g.disk.ReadDir(at)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := g.walk(path.Join(at, name)); err != nil {
				return err
			}
		}
	}
	g.apply(at, info.Mode)
	return nil
}

// apply gives one file or directory to the group. A symbolic link has no permissions of its own.
func (g applier) apply(at string, mode fs.FileMode) {
	g.count.Add(1)
	if err := g.disk.Chown(at, -1, g.group); err != nil {
		g.log.Error(err, "give to a group", "path", at, "group", g.group)
	}
	if mode&fs.ModeSymlink != 0 {
		return
	}
	const settable = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if err := g.disk.Chmod(at, mode&settable|permissions(mode, g.readOnly)); err != nil {
		g.log.Error(err, "permit to a group", "path", at, "group", g.group)
	}
}
