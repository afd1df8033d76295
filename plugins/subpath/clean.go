package subpath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Clean takes away all that the containers of a pod have of a volume by subPath; nothing there is fine. One that is in use is an
// error, and those that come after it stay. Directories are removed only if they are empty: what is mounted, or has come to
// lie there otherwise, is never removed.
//
// Differs: all of a volume's parts are unbound before a place is removed.
//
// Upstream: pkg/volume/util/subpath doCleanSubPaths (v1.36).
func (d Binder) Clean(podDir, volume string) error {
	dir := filepath.Join(podDir, Dir, volume)
	places, err := d.targets(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("error reading %s: %w", dir, err)
	}
	for _, place := range places {
		if err := d.unbindAll(volume, place); err != nil {
			return fmt.Errorf("error processing %s: error cleaning subpath mount %s: %w", filepath.Dir(place), place, err)
		}
	}
	return d.step("RemoveSubPaths", volume, dir, func() error { return d.removeTargets(podDir, dir) })
}

// targets are those of a volume at which something may be bound, sorted: what is in the directories of containers.
func (d Binder) targets(dir string) ([]string, error) {
	containers, err := d.FS.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var places []string
	for _, container := range containers {
		of := filepath.Join(dir, container)
		if info, err := d.FS.Stat(of); err != nil || !info.Mode.IsDir() {
			continue // removing it tells
		}
		names, err := d.FS.ReadDir(of)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			places = append(places, filepath.Join(of, name))
		}
	}
	return places, nil
}

// unbindAll unbinds whatever is mounted at a place.
func (d Binder) unbindAll(volume, place string) error {
	for {
		mounted, err := d.FS.IsMountPoint(place)
		if err != nil || !mounted {
			return err
		}
		if err := d.unbind(volume, place); err != nil {
			return err
		}
	}
}

func (d Binder) unbind(volume, place string) error {
	return d.step("UnbindSubPath", volume, place, func() error { return d.FS.Unmount(place) })
}

// removeTargets removes the places of a volume, and the directories in which they are. dir is the volume's.
func (d Binder) removeTargets(podDir, dir string) error {
	places, err := d.targets(dir)
	if err != nil {
		return fmt.Errorf("error reading %s: %w", dir, err)
	}
	for _, place := range places {
		if err := d.FS.Remove(place); err != nil {
			return fmt.Errorf("error cleaning subpath mount %s: %w", place, err)
		}
	}
	containers, err := d.FS.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("error reading %s: %w", dir, err)
	}
	for _, container := range containers {
		of := filepath.Join(dir, container)
		if info, err := d.FS.Stat(of); err != nil || !info.Mode.IsDir() {
			continue
		}
		if err := d.FS.Remove(of); err != nil {
			return fmt.Errorf("error deleting %s: %w", of, err)
		}
	}
	if err := d.FS.Remove(dir); err != nil {
		return fmt.Errorf("error deleting %s: %w", dir, err)
	}
	return d.removeEmptyDirs(podDir, filepath.Dir(dir))
}

// removeEmptyDirs removes a directory below the pod's, and those between the two, as long as they are empty.
//
// Upstream: pkg/volume/util/subpath removeEmptyDirs (v1.36).
func (d Binder) removeEmptyDirs(podDir, dir string) error {
	for ; dir != podDir; dir = filepath.Dir(dir) {
		switch err := d.FS.Remove(dir); {
		case errors.Is(err, nodefs.ErrNotEmpty):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist): // another volume of the pod may be cleaned at the same time
			return fmt.Errorf("error removing directory %q: %w", dir, err)
		}
	}
	return nil
}

// RemoveOrphans removes the places of a pod that has nothing of any volume any more: files and empty directories. Something that
// is mounted is an error, and stays. It does not leave the component.
//
// Upstream: pkg/kubelet removeOrphanedPodVolumeDirs, of volume-subpaths (v1.36).
func RemoveOrphans(disk nodefs.FS, podDir string) error {
	d := Binder{FS: disk}
	volumes, err := disk.ReadDir(filepath.Join(podDir, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, volume := range volumes {
		places, failed := d.targets(filepath.Join(podDir, Dir, volume))
		err = errors.Join(err, failed)
		for _, place := range places {
			err = errors.Join(err, disk.Remove(place))
		}
	}
	return err
}
