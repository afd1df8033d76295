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

// Dir is the directory, in a pod's, below which parts of volumes are bound.
//
// Upstream: pkg/kubelet/kubeletconfig DefaultKubeletVolumeSubpathsDirName (v1.36).
const Dir = "volume-subpaths"

// Subpath is part of a volume, for one volumeMount of one container.
//
// Upstream: pkg/volume/util/subpath Subpath (v1.36).
type Subpath struct {
	PodDir     string // the pod's directory
	Volume     string // the name of the volume's spec: that of its PersistentVolume, if it has one
	VolumePath string // where the volume is mounted for the pod
	Container  string
	Index      int    // of the volumeMount
	Path       string // in the volume: relative, without ".."
}

// Target is where the part is bound for the container.
//
// Upstream: pkg/volume/util/subpath getSubpathBindTarget (v1.36).
func (s Subpath) Target() string {
	return filepath.Join(s.PodDir, Dir, s.Volume, s.Container, strconv.Itoa(s.Index))
}

// Binder is a node's disk, and the component that works on it. Its methods are for the strands of the component.
type Binder struct {
	Process *sim.Process
	FS      nodefs.FS
}

// Missing tells whether there is nothing in the volume that could be bound. Where that cannot be told there may be something:
// then Bind tells what is wrong.
func (d Binder) Missing(s Subpath) bool {
	_, err := d.FS.StatWithin(s.VolumePath, s.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// MakeDir makes the directory in the volume, and those missing on the way, with the permissions given, which are usually those
// of the volume's root. It follows no link out of the volume.
//
// Upstream: pkg/volume/util/subpath SafeMakeDir (v1.36).
func (d Binder) MakeDir(s Subpath, mode fs.FileMode) error {
	return d.step("MakeSubPath", s.Volume, s.VolumePath, func() error { return d.FS.MkdirWithin(s.VolumePath, s.Path, mode) })
}

// Bind makes the part be there at Target. Where it is there already nothing is done; where something else is, that is taken
// away first. After an error nothing is left at Target, unless it was there before, or the bind took effect all the same.
//
// Differs: a place that was left, and is a file for what is a directory now or the other way round, is made anew; for upstream
// that is an error for ever.
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
			return err // it is there
		}
		if err := d.unbind(s.Volume, target); err != nil {
			return err
		}
	}
}

// makeTarget makes the empty directory, or file, on which something is going to be bound, unless something is mounted there.
func (d Binder) makeTarget(place string, directory bool) (mounted bool, err error) {
	switch there, err := d.FS.Stat(place); {
	case err == nil:
		mounted, err := d.FS.IsMountPoint(place)
		if err != nil || mounted || there.Mode.IsDir() == directory {
			return mounted, err
		}
		if err := d.FS.Remove(place); err != nil {
			return false, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if directory {
		return false, d.FS.MkdirAll(place)
	}
	if err := d.FS.MkdirAll(filepath.Dir(place)); err != nil {
		return false, err
	}
	return false, d.FS.WriteFile(place, nil)
}

// removeTarget removes the place of a part that could not be bound, and the directories above it that are empty.
//
// Upstream: pkg/volume/util/subpath cleanSubPath (v1.36).
func (d Binder) removeTarget(s Subpath) error {
	if err := d.FS.Remove(s.Target()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.removeEmptyDirs(s.PodDir, filepath.Dir(s.Target()))
}

// step does something on the disk, or in a volume, that may take its time. What fails has changed nothing.
func (d Binder) step(verb, volume, path string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Dir + "/" + volume}
	return d.Process.Call(action, func() trace.Outcome {
		err := do()
		return trace.Outcome{Err: err, Read: err != nil, Detail: "path=" + path}
	}).Err
}
