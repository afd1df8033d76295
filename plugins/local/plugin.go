package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Name is the plugin's name.
const Name = "kubernetes.io/local-volume"

// reasonAlreadyMounted is the reason of the event for a pod with another group.
//
// Upstream: pkg/kubelet/events WarnAlreadyMountedVolume (v1.36).
const reasonAlreadyMounted = "AlreadyMountedVolume"

// Config configures the plugin of one kubelet.
type Config struct {
	Process *sim.Process
	Machine hostpath.Machine // the kubelet's node; its Root is also the kubelet's directory
}

// Plugin is the plugin of local volumes. It keeps no state in memory.
//
// Upstream: pkg/volume/local localVolumePlugin (v1.36).
type Plugin struct{ cfg Config }

var (
	_ plugins.Mounter       = (*Plugin)(nil)
	_ plugins.MountChecker  = (*Plugin)(nil)
	_ plugins.MountOptioner = (*Plugin)(nil)
	_ plugins.DeviceMounter = (*Plugin)(nil)
	_ plugins.Reconstructor = (*Plugin)(nil)
)

// New returns the plugin of one kubelet.
func New(cfg Config) *Plugin { return &Plugin{cfg} }

// Name returns "kubernetes.io/local-volume".
func (p *Plugin) Name() string { return Name }

// CanSupport reports whether the volume is a local PersistentVolume.
func (p *Plugin) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.Local != nil
}

// VolumeName returns the name of the PersistentVolume.
func (p *Plugin) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

// SupportsMountOption reports whether the plugin accepts mount options: it does.
//
// Differs: they have no effect on a directory.
func (p *Plugin) SupportsMountOption() bool { return true }

// MountPath returns pods/<uid>/volumes/kubernetes.io~local-volume/<volume> below the kubelet's root.
func (p *Plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *Plugin) mountPath(specName string, pod types.UID) string {
	return path.Join(p.podsDir(), string(pod), "volumes", utilstrings.EscapeQualifiedName(Name), specName)
}

func (p *Plugin) podsDir() string { return path.Join(p.cfg.Machine.Root, "pods") }

// CheckMount returns an error if there is no directory at the volume's path.
//
// Differs: block devices are refused.
//
// Upstream: pkg/volume/local getGlobalLocalPath (v1.36).
func (p *Plugin) CheckMount(spec *plugins.Spec) error {
	_, err := p.DeviceMountPath(spec)
	return err
}

// CanDeviceMount reports whether the volume is mounted for the node: always, although there is
// nothing to do for a directory.
func (p *Plugin) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

// DeviceMountPath returns the volume's directory.
//
// Upstream: pkg/volume/local getGlobalLocalPath (v1.36).
func (p *Plugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	if !p.CanSupport(spec) || spec.PersistentVolume.Spec.Local.Path == "" {
		return "", errors.New("local volume source is nil or local path is not set")
	}
	name := spec.PersistentVolume.Spec.Local.Path
	machine := p.cfg.Machine
	info, err := machine.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("path %q does not exist", name)
	case err != nil:
		return "", err
	case !info.Mode.IsDir():
		return "", errors.New("only directory and block device are supported")
	default:
		return machine.Path(name), nil
	}
}

// MountDevice does nothing: the directory is there.
//
// Upstream: pkg/volume/local deviceMounter.MountDevice (v1.36).
func (p *Plugin) MountDevice(_ context.Context, spec *plugins.Spec, _ string, _ plugins.MountOptions) error {
	return p.CheckMount(spec)
}

// UnmountDevice does nothing.
//
// Upstream: pkg/volume/local deviceMounter.UnmountDevice (v1.36).
func (p *Plugin) UnmountDevice(context.Context, string) error { return nil }

// SetUp binds the volume's directory to the pod's. The group of its files is changed for the first
// pod only.
//
// Upstream: pkg/volume/local localVolumeMounter.SetUpAt (v1.36).
func (p *Plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	from, err := p.DeviceMountPath(spec)
	if err != nil {
		return err
	}
	if name := spec.PersistentVolume.Spec.Local.Path; slices.Contains(strings.Split(name, "/"), "..") {
		return fmt.Errorf("invalid path: %s must not contain '..'", name)
	}
	disk, to := p.cfg.Machine.FS, p.MountPath(spec, pod.UID)
	if mounted, err := disk.IsMountPoint(to); err == nil && mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	others, err := p.mountsOf(spec.Name())
	if err != nil {
		return err
	}
	if use.FSGroup != nil && len(others) > 0 {
		p.warnOfGroup(from, spec, pod, use)
	}
	if err := p.call("SetUp", spec.Name(), to, func() error { return bind(disk, from, to, spec.ReadOnly) }); err != nil {
		return err
	}
	if use.FSGroup == nil || spec.ReadOnly || len(others) > 0 {
		return nil
	}
	return ownership.Change{
		Process: p.cfg.Process, FS: disk, Volume: Name + "/" + spec.Name(), Dir: to, Pod: pod,
		Group: *use.FSGroup, Policy: use.FSGroupChangePolicy, Recorder: use.Recorder,
	}.Run(ctx)
}

// mountsOf returns where the volume is mounted for pods.
func (p *Plugin) mountsOf(name string) ([]string, error) {
	mounts, err := p.cfg.Machine.FS.Mounts()
	if err != nil {
		return nil, err
	}
	var paths []string
	end := path.Join("/volumes", utilstrings.EscapeQualifiedName(Name), name)
	for _, m := range mounts {
		if strings.HasPrefix(m.Path, p.podsDir()+"/") && strings.HasSuffix(m.Path, end) {
			paths = append(paths, m.Path)
		}
	}
	return paths, nil
}

// warnOfGroup reports to a pod that others use the volume with another group.
func (p *Plugin) warnOfGroup(from string, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) {
	info, err := p.cfg.Machine.FS.Stat(from)
	if err != nil || use.Recorder == nil || int64(info.GID) == *use.FSGroup {
		return
	}
	use.Recorder.Eventf(pod, corev1.EventTypeWarning, reasonAlreadyMounted,
		"The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.",
		*use.FSGroup, spec.Name(), info.GID)
}

// bind binds a directory. If it fails, nothing remains.
func bind(disk nodefs.FS, from, to string, readOnly bool) error {
	if err := disk.MkdirAll(to); err != nil {
		return err
	}
	if err := disk.BindMount(from, to, readOnly); err != nil {
		return errors.Join(err, disk.Remove(to))
	}
	return nil
}

// TearDown unmounts the volume from the pod and removes the pod's directory for it.
//
// Upstream: pkg/volume/local localVolumeUnmounter.TearDownAt, k8s.io/mount-utils CleanupMountPoint
// (v1.36).
func (p *Plugin) TearDown(_ context.Context, specName string, pod types.UID) error {
	disk, at := p.cfg.Machine.FS, p.mountPath(specName, pod)
	if there, err := disk.Exists(at); err != nil || !there {
		return err
	}
	return p.call("TearDown", specName, at, func() error {
		if mounted, err := disk.IsMountPoint(at); err != nil {
			return err
		} else if mounted {
			if err := disk.Unmount(at); err != nil {
				return err
			}
		}
		return disk.Remove(at)
	})
}

// Reconstruct identifies a volume by its mount point.
//
// Upstream: pkg/volume/local ConstructVolumeSpec (v1.36).
func (p *Plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	there, err := p.cfg.Machine.FS.Exists(p.mountPath(specName, pod))
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", specName, err)
	}
	mode := corev1.PersistentVolumeFilesystem
	return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: specName},
		Spec: corev1.PersistentVolumeSpec{
			VolumeMode:             &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}},
		},
	}}}, nil
}

// call changes the disk as one effect outside the process.
func (p *Plugin) call(verb, volume, at string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Name + "/" + volume}
	return p.cfg.Process.Call(action, func() trace.Outcome {
		return trace.Outcome{Err: do(), Detail: "path=" + at}
	}).Err
}
