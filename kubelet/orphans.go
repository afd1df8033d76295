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

// errStillMounted says that something is mounted in the directory of a pod unknown to the volume
// manager.
var errStillMounted = errors.New("orphaned pod found, but volumes are not cleaned up")

// housekeepingPeriod is how often a kubelet retries to remove pod directories.
//
// Upstream: pkg/kubelet housekeepingPeriod (v1.36).
const housekeepingPeriod = 2 * time.Second

// watchOrphans starts the queue of pods whose directories cannot be removed.
func (k *Kubelet) watchOrphans() {
	k.orphans = sim.NewQueue[types.UID](k.cfg.Process, sim.QueueConfig{Name: "orphaned pods", Background: true})
	k.orphans.Work(func(_ context.Context, uid types.UID) error {
		k.pods.Add(uid)
		return nil
	})
}

// podsDir returns the directory of the pod directories, each named by the pod's UID.
func (k *Kubelet) podsDir() string { return filepath.Join(k.cfg.Root, "pods") }

// podDirs returns the pods that have a directory, sorted.
//
// Upstream: pkg/kubelet listPodsFromDisk (v1.36).
func (k *Kubelet) podDirs() []types.UID {
	names, err := k.cfg.FS.ReadDir(k.podsDir())
	if err != nil {
		return nil // it does not exist, or the volume manager, which reads it too, reports the error
	}
	uids := make([]types.UID, len(names))
	for i, name := range names {
		uids[i] = types.UID(name)
	}
	return uids
}

// removePodDir removes the empty directories of a pod without mounts, and the messages of its containers. It fails if something is
// mounted there after all. Other remains are logged.
//
// Differs: upstream also removes the files of a pod's directory, except those of volumes.
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
	if err := errors.Join(k.removeMessages(uid), subpath.RemoveOrphans(k.cfg.FS, dir), k.removeEmpty(dir)); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err,
			fmt.Sprintf("orphaned pod %q found, but error occurred when trying to remove the pod directory", uid))
	}
	return nil
}

// mountIn returns the first path, from path downwards, that is a mount point; "" if there is none.
// It walks the directory, which is small for an ended pod, instead of the mounts of all pods.
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

// removeEmpty removes a directory and its subdirectories, bottom-up, as long as they are empty.
func (k *Kubelet) removeEmpty(dir string) error {
	names, err := k.cfg.FS.ReadDir(dir)
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%q is not a directory", dir)
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
