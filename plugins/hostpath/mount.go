package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/plugins"
)

var (
	_ plugins.Mounter       = (*Plugin)(nil)
	_ plugins.Reconstructor = (*Plugin)(nil)
)

// Modes of what SetUp creates.
//
// Upstream: pkg/volume/hostpath makeDir, makeFile (v1.36).
const (
	dirMode  fs.FileMode = 0o755
	fileMode fs.FileMode = 0o644
)

// MountPath returns the path on the machine's disk. Nothing is mounted there: containers get what is
// at the path.
//
// Upstream: pkg/volume/hostpath hostPath.GetPath (v1.36).
func (p *Plugin) MountPath(spec *plugins.Spec, _ types.UID) string {
	source := sourceOf(spec)
	if source == nil {
		return ""
	}
	return p.cfg.Machine.Path(source.Path)
}

// SetUp checks that what is at the path has the type that the pod asks for, and creates it if the
// type says so. With no type it creates a missing directory.
//
// Differs: upstream leaves a missing directory without a type to the container runtime, which
// creates it when the container starts.
//
// Upstream: pkg/volume/hostpath hostPathMounter.SetUp, checkType (v1.36).
func (p *Plugin) SetUp(_ context.Context, spec *plugins.Spec, _ *corev1.Pod, _ plugins.MountOptions) error {
	source := sourceOf(spec)
	if source == nil {
		return errors.New("spec does not reference an HostPath volume type")
	}
	if slices.Contains(strings.Split(source.Path, "/"), "..") {
		return fmt.Errorf("invalid HostPath `%s`: must not contain '..'", source.Path)
	}
	kind := ptr.Deref(source.Type, corev1.HostPathUnset)
	create := p.creator(kind)
	if create != nil {
		there, err := p.cfg.Machine.FS.Exists(p.cfg.Machine.Path(source.Path))
		if err != nil {
			return err
		}
		if !there {
			return p.call("SetUp", spec.Name(), source.Path, create)
		}
	}
	return p.cfg.Machine.check(source.Path, kind)
}

// creator returns what creates something of a type; nil: it must exist.
func (p *Plugin) creator(kind corev1.HostPathType) func(at string) error {
	switch kind {
	case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate:
		return p.cfg.Machine.makeDir
	case corev1.HostPathFileOrCreate:
		return p.cfg.Machine.makeFile
	default:
		return nil
	}
}

// TearDown does nothing: nothing is mounted.
//
// Upstream: pkg/volume/hostpath hostPathUnmounter.TearDown (v1.36).
func (p *Plugin) TearDown(context.Context, string, types.UID) error { return nil }

// Reconstruct returns a volume of that name. Its path is not known: nothing on the disk has it.
//
// Upstream: pkg/volume/hostpath ConstructVolumeSpec (v1.36), which takes the name for the path.
func (p *Plugin) Reconstruct(specName string, _ types.UID) (plugins.Reconstructed, error) {
	return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{
		Name: specName, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: specName}},
	}}}, nil
}

// makeDir creates a directory and its missing parents.
func (m Machine) makeDir(dir string) error {
	if dir == "/" {
		return m.FS.MkdirAll(m.Path(dir))
	}
	if there, err := m.FS.Exists(m.Path(dir)); err != nil || there {
		return err
	}
	if err := m.makeDir(path.Dir(path.Clean(dir))); err != nil {
		return err
	}
	if err := m.FS.MkdirAll(m.Path(dir)); err != nil {
		return err
	}
	return m.FS.Chmod(m.Path(dir), dirMode)
}

// makeFile creates an empty file. Its directory must exist.
func (m Machine) makeFile(file string) error {
	if err := m.FS.WriteFile(m.Path(file), nil); err != nil {
		return err
	}
	return m.FS.Chmod(m.Path(file), fileMode)
}

// check returns an error if what is at a path, or where a link there leads, is not of a type.
func (m Machine) check(name string, kind corev1.HostPathType) error {
	var is func(mode fs.FileMode) bool
	var what string
	switch kind {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		is, what = fs.FileMode.IsDir, "directory"
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		is, what = fs.FileMode.IsRegular, "file"
	case corev1.HostPathSocket:
		is, what = func(mode fs.FileMode) bool { return mode&fs.ModeSocket != 0 }, "socket file"
	case corev1.HostPathCharDev:
		is, what = func(mode fs.FileMode) bool { return mode&fs.ModeCharDevice != 0 }, "character device"
	case corev1.HostPathBlockDev:
		is, what = func(mode fs.FileMode) bool { return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0 }, "block device"
	default:
		return fmt.Errorf("%s is an invalid volume type", kind)
	}
	info, err := m.Stat(name)
	if err != nil || !is(info.Mode) {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", name, what)
	}
	return nil
}
