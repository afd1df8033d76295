package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Where volumes are created, and below which they may be deleted.
//
// Upstream: pkg/volume/hostpath newProvisioner, hostPathDeleter (v1.36).
const (
	volumesDir = "/tmp/hostpath_pv"
	tmpDir     = "/tmp/"
)

// A Machine is the disk whose directories are volumes. It may be used concurrently.
type Machine struct {
	FS nodefs.FS
	// Root is the directory of FS that represents the machine's root. It also represents
	// /var/lib/kubelet, where a kubelet of the machine has its directories.
	Root string
}

// A Volume is a directory that a Plugin created.
type Volume struct {
	Name  string   // of its PersistentVolume
	Path  string   // on the machine
	Files []string // the names directly in it, sorted
}

// Volumes returns the volumes that were created and not deleted, by path. The error is of the disk.
func (m Machine) Volumes() ([]Volume, error) {
	names, err := m.FS.ReadDir(m.Path(volumesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Volume
	for _, name := range names {
		dir := path.Join(volumesDir, name)
		files, err := m.FS.ReadDir(m.Path(dir))
		if err != nil {
			return nil, fmt.Errorf("list volume %s: %w", dir, err)
		}
		all = append(all, Volume{Name: "pvc-" + name, Path: dir, Files: files})
	}
	return all, err
}

// Stat returns the attributes of what is at a path on the machine, or of what a link there leads to.
// For a missing path it returns fs.ErrNotExist.
func (m Machine) Stat(name string) (nodefs.Info, error) {
	return m.FS.StatWithin(m.Root, strings.TrimPrefix(strings.TrimPrefix(m.Path(name), m.Root), "/"))
}

func (m Machine) make(dir string) error { return m.FS.MkdirAll(m.Path(dir)) }

func (m Machine) remove(dir string) error { return m.FS.RemoveAll(m.Path(dir)) }

// kubeletDir is the directory of a kubelet on its machine.
const kubeletDir = "/var/lib/kubelet"

// Path returns the path in FS of a path on the machine.
func (m Machine) Path(name string) string {
	clean := path.Clean("/" + name)
	if rest, below := strings.CutPrefix(clean+"/", kubeletDir+"/"); below {
		clean = rest
	}
	return path.Join(m.Root, clean)
}

// deletable reports whether a path is below /tmp.
func deletable(dir string) bool {
	return !slices.Contains(strings.Split(dir, "/"), "..") && strings.HasPrefix(path.Clean(dir), tmpDir)
}
