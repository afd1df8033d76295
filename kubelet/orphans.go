package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins/subpath"
	"github.com/volsim/volsim/sim"
)

// errStillMounted says that something is mounted below the directory of a pod that the volume manager does not know of.
var errStillMounted = errors.New("orphaned pod found, but volumes are not cleaned up")

// housekeepingPeriod is how often a kubelet looks at what it cannot remove.
//
// Upstream: pkg/kubelet housekeepingPeriod (v1.36).
const housekeepingPeriod = 2 * time.Second

// watchOrphans has pods looked at again whose directories cannot be removed.
func (k *Kubelet) watchOrphans() {
	k.orphans = sim.NewQueue[types.UID](k.cfg.Process, sim.QueueConfig{Name: "orphaned pods", Background: true})
	k.orphans.Work(func(_ context.Context, uid types.UID) error {
		k.pods.Add(uid)
		return nil
	})
}

// podsDir is where the directories of pods are, each named by the pod's UID.
func (k *Kubelet) podsDir() string { return filepath.Join(k.cfg.Root, "pods") }

// podDirs are the pods that have a directory, sorted.
//
// Upstream: pkg/kubelet listPodsFromDisk (v1.36).
func (k *Kubelet) podDirs() []types.UID {
	names, err := k.cfg.FS.ReadDir(k.podsDir())
	if err != nil {
		return nil // there is none, or the volume manager, which reads it too, tells
	}
	uids := make([]types.UID, len(names))
	for i, name := range names {
		uids[i] = types.UID(name)
	}
	return uids
}

// removePodDir removes what is left of the directory of a pod of which nothing is mounted: directories, as long as they are
// empty. The error says that something is mounted there after all. What else is left is logged.
//
// Differs: upstream removes the files of a pod's directory, too, but for those of volumes.
//
// Upstream: pkg/kubelet cleanupOrphanedPodDirs, removeOrphanedPodVolumeDirs (v1.36).
func (k *Kubelet) removePodDir(ctx context.Context, uid types.UID) error {
	dir := filepath.Join(k.podsDir(), string(uid))
	if exists, err := k.cfg.FS.Exists(dir); err != nil || !exists {
		return err
	}
	switch mount, err := k.mountIn(dir); {
	case err != nil:
		return fmt.Errorf("remove pod directory: %w", err)
	case mount != "":
		return fmt.Errorf("%w: pod %s: %s", errStillMounted, uid, mount)
	}
	if err := errors.Join(subpath.RemoveOrphans(k.cfg.FS, dir), k.removeEmpty(dir)); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, fmt.Sprintf("orphaned pod %q found, but error occurred when trying to remove the pod directory", uid))
	}
	return nil
}

// mountIn is the first path, from path on and in it, at which something is mounted; "" where there is none. It looks at what is
// there, which is little of a pod that has ended, and not at what is mounted for all the others.
func (k *Kubelet) mountIn(path string) (string, error) {
	info, err := k.cfg.FS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || info.Mode&fs.ModeSymlink != 0 {
		return "", err
	}
	if mounted, err := k.cfg.FS.IsMountPoint(path); err != nil || mounted {
		return path, err
	}
	if !info.Mode.IsDir() {
		return "", nil
	}
	names, err := k.cfg.FS.ReadDir(path)
	for _, name := range names {
		if mount, err := k.mountIn(filepath.Join(path, name)); err != nil || mount != "" {
			return mount, err
		}
	}
	return "", err
}

// removeEmpty removes a directory and those in it, from within, as long as they are empty.
func (k *Kubelet) removeEmpty(dir string) error {
	names, err := k.cfg.FS.ReadDir(dir)
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s is no directory", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		err = errors.Join(err, k.removeEmpty(filepath.Join(dir, name)))
	}
	if err != nil {
		return err
	}
	return k.cfg.FS.Remove(dir)
}
