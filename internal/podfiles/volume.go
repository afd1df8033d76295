package podfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// dirMode is the mode of an emptyDir.
//
// Upstream: pkg/volume/emptydir perm (v1.36).
const dirMode fs.FileMode = 0o777

// nestedMode is the mode of a directory in which another volume is mounted.
//
// Upstream: pkg/volume/util MakeNestedMountpoints (v1.36).
const nestedMode fs.FileMode = 0o755

// wrapped is the prefix of the name under which the directory of another plugin's volume is kept.
//
// Upstream: pkg/kubelet kubeletVolumeHost.NewWrapperMounter (v1.36).
const wrapped = "wrapped_"

// readyFile is the marker that a volume is set up.
//
// Upstream: pkg/volume/util readyFileName (v1.36).
const readyFile = "ready"

// A Disk is where a kubelet keeps the volumes of its pods.
type Disk struct {
	Process *sim.Process
	FS      nodefs.FS
	Root    string // the kubelet's directory
}

// A Volume is the directory of a volume of a pod.
type Volume struct {
	disk   Disk
	plugin string
	name   string
	pod    types.UID
}

// Volume returns a volume of a pod, named as in the pod.
func (d Disk) Volume(plugin, name string, pod types.UID) Volume { return Volume{d, plugin, name, pod} }

// Path returns the volume's directory: pods/<uid>/volumes/<plugin>/<name> below the kubelet's root.
func (v Volume) Path() string {
	return path.Join(v.podDir(), "volumes", utilstrings.EscapeQualifiedName(v.plugin), v.name)
}

func (v Volume) podDir() string { return path.Join(v.disk.Root, "pods", string(v.pod)) }

// markerDir returns the directory of the marker.
//
// Upstream: pkg/volume/emptydir emptyDir.getMetaDir (v1.36).
func (v Volume) markerDir() string {
	name := v.name
	if v.plugin != EmptyDirName {
		name = wrapped + name
	}
	return path.Join(v.podDir(), "plugins", utilstrings.EscapeQualifiedName(EmptyDirName), name)
}

// A Setup says how a volume is set up.
type Setup struct {
	Pod     *corev1.Pod
	Memory  bool   // on a file system in memory
	Size    int64  // of that, in bytes; 0: as the kernel does
	FSGroup *int64 // the group that must own the directory; nil: no change
	Nested  bool   // with the directories in which the pod mounts further volumes
}

// SetUp creates the directory and the marker, and the directories for further volumes. What is there
// stays as it is.
//
// Differs: upstream mounts a file system in memory once more if it is found mounted without its
// marker; here only the marker is written.
//
// Upstream: pkg/volume/emptydir emptyDir.SetUpAt (v1.36).
func (v Volume) SetUp(ctx context.Context, s Setup) error {
	nested, err := v.nestedDirs(s)
	if err != nil {
		return err
	}
	ready, err := v.isReady(s)
	if err != nil || ready && v.exist(nested) {
		return err
	}
	return v.call("SetUp", func() error {
		if !ready {
			if err := v.create(ctx, s); err != nil {
				return err
			}
		}
		for _, dir := range nested {
			if err := makeDirs(v.disk.FS, v.Path(), dir, nestedMode); err != nil {
				return fmt.Errorf("unable to create nested volume mountpoints: %w", err)
			}
		}
		return nil
	})
}

// isReady reports whether the volume is set up.
func (v Volume) isReady(s Setup) (bool, error) {
	mounted, err := v.isMounted()
	if err != nil {
		return false, err
	}
	marked, err := v.disk.FS.Exists(path.Join(v.markerDir(), readyFile))
	if err != nil || !marked {
		return false, err
	}
	if s.Memory {
		return mounted, nil
	}
	return v.disk.FS.Exists(v.Path())
}

// isMounted reports whether something is mounted at the directory; false if there is no directory.
func (v Volume) isMounted() (bool, error) {
	mounted, err := v.disk.FS.IsMountPoint(v.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}

func (v Volume) exist(dirs []string) bool {
	return !slices.ContainsFunc(dirs, func(dir string) bool {
		there, err := v.disk.FS.Exists(dir)
		return err != nil || !there
	})
}

func (v Volume) create(ctx context.Context, s Setup) error {
	if err := makeDir(v.disk.FS, v.Path(), dirMode); err != nil {
		return err
	}
	if mounted, err := v.isMounted(); err != nil {
		return err
	} else if s.Memory && !mounted {
		if err := v.disk.FS.MountTmpfs(v.Path(), s.Size); err != nil {
			return err
		}
	}
	if s.FSGroup != nil {
		var count atomic.Int64 // errors of the group are ignored, as upstream does
		_ = ownership.Apply(ctx, v.disk.FS, v.Path(), *s.FSGroup, false, &count)
	}
	if err := v.disk.FS.MkdirAll(v.markerDir()); err != nil {
		return err
	}
	return v.disk.FS.WriteFile(path.Join(v.markerDir(), readyFile), nil)
}

// makeDir creates a directory with a mode, and sets the mode of an existing one.
func makeDir(disk nodefs.FS, dir string, mode fs.FileMode) error {
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	return disk.Chmod(dir, mode)
}

// makeDirs creates a directory below base, and those between, with a mode. Existing ones keep
// theirs, and new ones what they inherit.
func makeDirs(disk nodefs.FS, base, dir string, mode fs.FileMode) error {
	if dir == base {
		return nil
	}
	if there, err := disk.Exists(dir); err != nil || there {
		return err
	}
	if err := makeDirs(disk, base, path.Dir(dir), mode); err != nil {
		return err
	}
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	info, err := disk.Stat(dir)
	if err != nil {
		return err
	}
	return disk.Chmod(dir, mode|info.Mode&fs.ModeSetgid)
}

// nestedDirs returns the directories of the volume in which containers of the pod mount something.
//
// Upstream: pkg/volume/util getNestedMountpoints (v1.36).
func (v Volume) nestedDirs(s Setup) ([]string, error) {
	if !s.Nested {
		return nil, nil
	}
	var dirs []string
	spec := &s.Pod.Spec
	visit := func(mounts []corev1.VolumeMount) error {
		for i := range mounts {
			if mounts[i].Name != v.name {
				continue
			}
			below, err := nestedIn(path.Clean(mounts[i].MountPath), mounts)
			if err != nil {
				return err
			}
			for _, dir := range below {
				dirs = append(dirs, path.Join(v.Path(), dir))
			}
		}
		return nil
	}
	for i := range spec.InitContainers {
		if err := visit(spec.InitContainers[i].VolumeMounts); err != nil {
			return nil, err
		}
	}
	for i := range spec.Containers {
		if err := visit(spec.Containers[i].VolumeMounts); err != nil {
			return nil, err
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// nestedIn returns the outermost mount paths below a mount path, relative to it.
func nestedIn(outer string, mounts []corev1.VolumeMount) ([]string, error) {
	if strings.HasPrefix(outer, "../") {
		return nil, fmt.Errorf("invalid container mount point %v", outer)
	}
	var all []string
	for i := range mounts {
		all = append(all, path.Clean(mounts[i].MountPath))
	}
	slices.Sort(all)
	var nested []string
	for _, inner := range all {
		rest, below := strings.CutPrefix(inner, outer+"/")
		within := func(found string) bool { return strings.HasPrefix(rest, found+"/") }
		if below && rest != "" && !slices.ContainsFunc(nested, within) {
			nested = append(nested, rest)
		}
	}
	return nested, nil
}

// TearDown removes the marker, and then the directory with its content.
//
// Upstream: pkg/volume/emptydir emptyDir.TearDownAt (v1.36).
func (v Volume) TearDown() error {
	marked, err := v.disk.FS.Exists(v.markerDir())
	if err != nil {
		return err
	}
	there, err := v.disk.FS.Exists(v.Path())
	if err != nil {
		return fmt.Errorf("error checking if path exists: %w", err)
	}
	if !marked && !there {
		return nil
	}
	return v.call("TearDown", func() error {
		if err := v.disk.FS.RemoveAll(v.markerDir()); err != nil {
			return fmt.Errorf("failed to remove ready dir [%s]: %w", v.markerDir(), err)
		}
		if mounted, err := v.isMounted(); err != nil {
			return err
		} else if mounted {
			if err := v.disk.FS.Unmount(v.Path()); err != nil {
				return err
			}
		}
		return v.disk.FS.RemoveAll(v.Path())
	})
}

// classify returns the error of a SetUp. It is uncertain if something of the volume is on the disk.
func (v Volume) classify(err error) error {
	if err == nil {
		return nil
	}
	for _, dir := range []string{v.Path(), v.markerDir()} {
		if there, failed := v.disk.FS.Exists(dir); failed != nil || there {
			return &plugins.Error{Class: plugins.Uncertain, Err: err}
		}
	}
	return err
}

// call changes the disk as one effect outside the process.
func (v Volume) call(verb string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: v.plugin + "/" + v.name}
	return v.disk.Process.Call(action, func() trace.Outcome {
		return trace.Outcome{Err: do(), Detail: "path=" + v.Path()}
	}).Err
}
