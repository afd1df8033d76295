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
	_ plugins.Mounter             = (*Plugin)(nil)
	_ plugins.MountChecker        = (*Plugin)(nil)
	_ plugins.MountOptioner       = (*Plugin)(nil)
	_ plugins.DeviceMounter       = (*Plugin)(nil)
	_ plugins.Reconstructor       = (*Plugin)(nil)
	_ plugins.BlockMapper         = (*Plugin)(nil)
	_ plugins.BlockPaths          = (*Plugin)(nil)
	_ plugins.BlockReconstructor  = (*Plugin)(nil)
	_ plugins.DeviceReconstructor = (*Plugin)(nil)
	_ plugins.NodeExpander        = (*Plugin)(nil)
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
// Differs: they have no effect on a directory, except "ro".
func (p *Plugin) SupportsMountOption() bool { return true }

// MountPath returns pods/<uid>/volumes/kubernetes.io~local-volume/<volume> below the kubelet's root.
func (p *Plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *Plugin) mountPath(specName string, pod types.UID) string {
	return path.Join(p.podsDir(), string(pod), "volumes", utilstrings.EscapeQualifiedName(Name), specName)
}

func (p *Plugin) podsDir() string { return path.Join(p.cfg.Machine.Root, "pods") }

// CheckMount returns an error if there is neither a directory nor a block device at the volume's
// path.
//
// Upstream: pkg/volume/local getGlobalLocalPath (v1.36).
func (p *Plugin) CheckMount(spec *plugins.Spec) error {
	_, err := p.isBlockDevice(spec)
	return err
}

// SetUp binds the volume's directory to the pod's. The group of its files is changed for the first
// pod only. An error is uncertain if the pod's directory exists.
//
// Upstream: pkg/volume/local localVolumeMounter.SetUpAt (v1.36).
func (p *Plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	err := p.setUp(ctx, spec, pod, use)
	if err == nil {
		return nil
	}
	if there, failed := p.cfg.Machine.FS.Exists(p.MountPath(spec, pod.UID)); failed != nil || there {
		return &plugins.Error{Class: plugins.Uncertain, Err: err}
	}
	return err
}

func (p *Plugin) setUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	if err := p.CheckMount(spec); err != nil {
		return err
	}
	from, err := p.DeviceMountPath(spec)
	if err != nil {
		return err
	}
	if name := spec.PersistentVolume.Spec.Local.Path; slices.Contains(strings.Split(name, "/"), "..") {
		return fmt.Errorf("invalid path: %s must not contain '..'", name)
	}
	disk, to := p.cfg.Machine.FS, p.MountPath(spec, pod.UID)
	if mounted, err := disk.IsMountPoint(to); err == nil && mounted {
		return p.completeGroup(ctx, spec, pod, use)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	others, err := p.mountsOf(spec.Name())
	if err != nil {
		return err
	}
	readOnly := isReadOnly(spec)
	if use.FSGroup != nil && len(others) > 0 {
		p.warnOfGroup(from, spec, pod, use)
	}
	if err := p.call("SetUp", spec.Name(), to, func() error { return bind(disk, from, to, readOnly) }); err != nil {
		return err
	}
	if use.FSGroup == nil || readOnly || len(others) > 0 {
		return nil
	}
	return p.changeGroup(ctx, spec, pod, use)
}

// isReadOnly reports whether pods may not write into a volume.
func isReadOnly(spec *plugins.Spec) bool {
	return spec.ReadOnly || slices.Contains(mountOptions(spec), "ro")
}

// completeGroup changes the group of a mounted volume if an earlier SetUp did not: its kubelet was
// killed, or an error occurred. The directory itself is changed last.
//
// Differs: upstream does not, and the pod runs with files that it cannot access.
func (p *Plugin) completeGroup(
	ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions,
) error {
	if use.FSGroup == nil || isReadOnly(spec) {
		return nil
	}
	if all, err := p.mountsOf(spec.Name()); err != nil || len(all) > 1 {
		return err
	}
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	use.FSGroupChangePolicy = &onMismatch
	return p.changeGroup(ctx, spec, pod, use)
}

func (p *Plugin) changeGroup(
	ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions,
) error {
	return ownership.Change{
		Process: p.cfg.Process, FS: p.cfg.Machine.FS, Volume: Name + "/" + spec.Name(), Dir: p.MountPath(spec, pod.UID),
		Pod: pod, Group: *use.FSGroup, Policy: use.FSGroupChangePolicy, Recorder: use.Recorder,
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
	return p.cleanMountPoint("TearDown", specName, p.mountPath(specName, pod))
}

// call changes the disk as one effect outside the process. An injected fault may come after the
// effect.
func (p *Plugin) call(verb, volume, at string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Name + "/" + volume}
	done := false
	out := p.cfg.Process.Call(action, func() trace.Outcome {
		err := do()
		done = err == nil
		return trace.Outcome{Err: err, Detail: "path=" + at}
	})
	if out.Err != nil && done {
		return &plugins.Error{Class: plugins.Uncertain, Err: out.Err}
	}
	return out.Err
}
