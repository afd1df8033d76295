package subpath

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Dir is the directory, in a pod's directory, below which subpaths are bound.
//
// Upstream: pkg/kubelet/kubeletconfig DefaultKubeletVolumeSubpathsDirName (v1.36).
const Dir = "volume-subpaths"

// A Subpath is part of a volume, for one volumeMount of one container.
//
// Upstream: pkg/volume/util/subpath Subpath (v1.36).
type Subpath struct {
	PodDir     string // the pod's directory
	Volume     string // the volume's spec name: that of its PersistentVolume, if any
	VolumePath string // where the volume is mounted for the pod
	Container  string
	Index      int    // of the volumeMount
	Path       string // in the volume: relative, without ".."
}

// Target returns the path to which the subpath is bound for the container.
//
// Upstream: pkg/volume/util/subpath getSubpathBindTarget (v1.36).
func (s Subpath) Target() string {
	return filepath.Join(s.PodDir, Dir, s.Volume, s.Container, strconv.Itoa(s.Index))
}

// A Binder binds subpaths on a node's disk. Its methods are called in tasks of the process.
type Binder struct {
	Process *sim.Process
	FS      nodefs.FS
}

// Missing reports whether the volume has nothing at the path. It returns false if that cannot be
// determined; Bind then returns the error.
func (d Binder) Missing(s Subpath) bool {
	_, err := d.FS.StatWithin(s.VolumePath, s.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// MakeDir creates the directory in the volume, and missing parents, with the given permissions,
// usually those of the volume's root. It follows no link out of the volume.
//
// Upstream: pkg/volume/util/subpath SafeMakeDir (v1.36).
func (d Binder) MakeDir(s Subpath, mode fs.FileMode) error {
	return d.step("MakeSubPath", s.Volume, s.VolumePath,
		func() error { return d.FS.MkdirWithin(s.VolumePath, s.Path, mode) })
}

// Bind binds the subpath to Target. It does nothing if the subpath is bound there, and first
// unbinds anything else. After an error nothing is left at Target, unless it existed before or the
// bind took effect all the same.
//
// Differs: a stale target that is a file where a directory is needed, or the reverse, is replaced;
// upstream fails permanently.
//
// Upstream: pkg/volume/util/subpath doBindSubPath, prepareSubpathTarget (v1.36).
func (d Binder) Bind(s Subpath) error {
	target := s.Target()
	for {
		part, err := d.FS.StatWithin(s.VolumePath, s.Path)
		if err != nil {
			return err
		}
		mounted, err := d.makeTarget(target, part.Mode.IsDir())
		if err != nil {
			return err
		}
		if !mounted {
			return d.step("BindSubPath", s.Volume, target, func() error {
				err := d.FS.BindWithin(s.VolumePath, s.Path, target)
				if err != nil {
					err = errors.Join(err, d.removeTarget(s))
				}
				return err
			})
		}
		if err := d.FS.BindWithin(s.VolumePath, s.Path, target); !errors.Is(err, nodefs.ErrMounted) {
			return err // already bound
		}
		if err := d.unbind(s.Volume, target); err != nil {
			return err
		}
	}
}

// makeTarget creates the empty directory, or file, to bind to, unless something is mounted there.
func (d Binder) makeTarget(target string, directory bool) (mounted bool, err error) {
	switch info, err := d.FS.Stat(target); {
	case err == nil:
		mounted, err := d.FS.IsMountPoint(target)
		if err != nil || mounted || info.Mode.IsDir() == directory {
			return mounted, err
		}
		if err := d.FS.Remove(target); err != nil {
			return false, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if directory {
		return false, d.FS.MkdirAll(target)
	}
	if err := d.FS.MkdirAll(filepath.Dir(target)); err != nil {
		return false, err
	}
	return false, d.FS.WriteFile(target, nil)
}

// removeTarget removes the target of a subpath that could not be bound, and its parents that are
// empty.
//
// Upstream: pkg/volume/util/subpath cleanSubPath (v1.36).
func (d Binder) removeTarget(s Subpath) error {
	if err := d.FS.Remove(s.Target()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.removeEmptyDirs(s.PodDir, filepath.Dir(s.Target()))
}

// step makes one change that may take time, on the disk or in a volume. A failed step has changed
// nothing.
func (d Binder) step(verb, volume, path string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Dir + "/" + volume}
	return d.Process.Call(action, func() trace.Outcome {
		err := do()
		return trace.Outcome{Err: err, Read: err != nil, Detail: "path=" + path}
	}).Err
}
