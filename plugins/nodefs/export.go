package nodefs

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	mountutils "k8s.io/mount-utils"
)

// nfsType is the type of a file system of an NFS server.
const nfsType = "nfs"

// Export is a directory that an NFS server exports.
type Export struct {
	Source  string   // SERVER:PATH, as Mounts reports it
	Options []string // of mount(8)
	// Disk and Dir say where a simulated server has the directory: on a disk of the same
	// implementation as the node's. With a nil Disk the kernel mounts Source from a real server.
	Disk FS
	Dir  string
}

// readOnly reports whether an option says so.
func (e Export) readOnly() bool { return slices.Contains(e.Options, "ro") }

// MountExport implements FS.
func (m *Memory) MountExport(export Export, target string) error {
	server, ok := export.Disk.(*Memory)
	if !ok {
		return pathError("mount", target, fmt.Errorf("a node in memory cannot mount %s", export.Source))
	}
	tree, at, err := server.directory(export.Dir)
	if err != nil {
		return pathError("mount", export.Source, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attach(target, &mount{
		tree: tree, at: at, source: export.Source, fsType: nfsType, readOnly: export.readOnly(),
	})
}

// directory returns the tree that has an existing directory, and its node there.
func (m *Memory) directory(name string) (*Tree, *node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here, err := m.existing(name)
	if err != nil {
		return nil, nil, err
	}
	at, err := here.find()
	if err == nil && !at.isDirectory() {
		err = syscall.ENOTDIR
	}
	return here.mount.tree, at, err
}

// UnmountExport implements FS. The mount is never busy for longer than the call.
func (m *Memory) UnmountExport(target string, _ time.Duration) error { return m.Unmount(target) }

// MountExport implements FS. A directory of a simulated server is bound, so Mounts reports the file
// system that it is on, and other options than "ro" have no effect.
func (r *Real) MountExport(export Export, target string) error {
	if export.Disk == nil {
		to, err := r.resolveMountTarget(target, true)
		if err != nil {
			return err
		}
		return r.mounter.MountSensitiveWithoutSystemd(export.Source, to, nfsType, export.Options, nil)
	}
	server, ok := export.Disk.(*Real)
	if !ok {
		return pathError("mount", target, fmt.Errorf("a node of this machine cannot mount %s", export.Source))
	}
	from, isDirectory, err := server.resolveExisting(export.Dir)
	if err == nil && !isDirectory {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("mount", export.Source, err)
	}
	return r.bind(from, true, target, export.readOnly())
}

// UnmountExport implements FS. It does not read the mounted directory, whose server may not answer.
//
// Upstream: k8s.io/mount-utils UnmountWithForce (v0.36).
func (r *Real) UnmountExport(target string, limit time.Duration) error {
	place, err := r.resolveEntry(target)
	if err != nil {
		return err
	}
	rows, err := mountinfo.GetMounts(func(row *mountinfo.Info) (skip, stop bool) { return row.Mountpoint != place, false })
	if err != nil {
		return fmt.Errorf("read the mount table: %w", err)
	}
	if len(rows) == 0 {
		return pathError("unmount", target, ErrNotMounted)
	}
	force, ok := r.mounter.(mountutils.MounterForceUnmounter)
	if top := rows[len(rows)-1]; !ok || !strings.HasPrefix(top.FSType, nfsType) {
		return r.unmount(target, place)
	}
	return pathError("unmount", target, force.UnmountWithForce(place, limit))
}
