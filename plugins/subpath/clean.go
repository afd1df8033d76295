package subpath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Clean unbinds and removes every subpath that a pod's containers have of a volume. It succeeds if
// there are none. A subpath that is in use is an error, and those after it stay. Directories are
// removed only if they are empty: mounts and foreign files are never removed.
//
// Differs: all of a volume's subpaths are unbound before a target is removed.
//
// Upstream: pkg/volume/util/subpath doCleanSubPaths (v1.36).
func (d Binder) Clean(podDir, volume string) error {
	dir := filepath.Join(podDir, Dir, volume)
	targets, err := d.targets(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("error reading %s: %w", dir, err)
	}
	for _, target := range targets {
		if err := d.unbindAll(volume, target); err != nil {
			return fmt.Errorf("error processing %s: error cleaning subpath mount %s: %w",
				filepath.Dir(target), target, err)
		}
	}
	return d.step("RemoveSubPaths", volume, dir, func() error { return d.removeTargets(podDir, dir) })
}

// targets returns the bind targets of a volume, sorted: the entries of the containers' directories.
func (d Binder) targets(dir string) ([]string, error) {
	containers, err := d.FS.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, container := range containers {
		containerDir := filepath.Join(dir, container)
		if info, err := d.FS.Stat(containerDir); err != nil || !info.Mode.IsDir() {
			continue // removing it reports the error
		}
		names, err := d.FS.ReadDir(containerDir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			targets = append(targets, filepath.Join(containerDir, name))
		}
	}
	return targets, nil
}

// unbindAll unbinds everything mounted at a target.
func (d Binder) unbindAll(volume, target string) error {
	for {
		mounted, err := d.FS.IsMountPoint(target)
		if err != nil || !mounted {
			return err
		}
		if err := d.unbind(volume, target); err != nil {
			return err
		}
	}
}

func (d Binder) unbind(volume, target string) error {
	return d.step("UnbindSubPath", volume, target, func() error { return d.FS.Unmount(target) })
}

// removeTargets removes the targets of a volume, and their directories. dir is the volume's.
func (d Binder) removeTargets(podDir, dir string) error {
	targets, err := d.targets(dir)
	if err != nil {
		return fmt.Errorf("error reading %s: %w", dir, err)
	}
	for _, target := range targets {
		if err := d.FS.Remove(target); err != nil {
			return fmt.Errorf("error cleaning subpath mount %s: %w", target, err)
		}
	}
	containers, err := d.FS.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("error reading %s: %w", dir, err)
	}
	for _, container := range containers {
		containerDir := filepath.Join(dir, container)
		if info, err := d.FS.Stat(containerDir); err != nil || !info.Mode.IsDir() {
			continue
		}
		if err := d.FS.Remove(containerDir); err != nil {
			return fmt.Errorf("error deleting %s: %w", containerDir, err)
		}
	}
	if err := d.FS.Remove(dir); err != nil {
		return fmt.Errorf("error deleting %s: %w", dir, err)
	}
	return d.removeEmptyDirs(podDir, filepath.Dir(dir))
}

// removeEmptyDirs removes dir, which is below the pod's directory, and its parents up to there, as
// long as they are empty.
//
// Upstream: pkg/volume/util/subpath removeEmptyDirs (v1.36).
func (d Binder) removeEmptyDirs(podDir, dir string) error {
	for ; dir != podDir; dir = filepath.Dir(dir) {
		switch err := d.FS.Remove(dir); {
		case errors.Is(err, nodefs.ErrNotEmpty):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist): // another volume of the pod may be cleaned concurrently
			return fmt.Errorf("error removing directory %q: %w", dir, err)
		}
	}
	return nil
}

// RemoveOrphans removes the targets of a pod that no longer has any volume: files and empty
// directories. A mount is an error, and stays. RemoveOrphans does not leave the process.
//
// Upstream: pkg/kubelet removeOrphanedPodVolumeDirs, of volume-subpaths (v1.36).
func RemoveOrphans(disk nodefs.FS, podDir string) error {
	d := Binder{FS: disk}
	volumes, err := disk.ReadDir(filepath.Join(podDir, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, volume := range volumes {
		targets, failed := d.targets(filepath.Join(podDir, Dir, volume))
		err = errors.Join(err, failed)
		for _, target := range targets {
			err = errors.Join(err, disk.Remove(target))
		}
	}
	return err
}
