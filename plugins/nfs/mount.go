package nfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	netutil "k8s.io/utils/net"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// How long a server that does not answer delays calls.
const (
	// mountLimit is how long mount.nfs tries in the foreground.
	mountLimit = 2 * time.Minute
	// mountRetry is how long it waits between two attempts at most.
	mountRetry = 10 * time.Second
	// unmountLimit is how long an unmount may take before it is forced.
	//
	// Upstream: pkg/volume/nfs unMountTimeout (v1.36).
	unmountLimit = time.Minute
)

// SupportsMountOption reports whether the plugin accepts mount options: it does.
func (p *Plugin) SupportsMountOption() bool { return true }

// MountPath returns pods/<uid>/volumes/kubernetes.io~nfs/<volume> below the kubelet's root.
func (p *Plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *Plugin) mountPath(specName string, pod types.UID) string {
	return path.Join(p.cfg.Root, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(Name), specName)
}

// SetUp mounts the export for the pod. It does not change the owner of files. A server that does not
// answer lets it fail after two minutes. An error is uncertain if the export is mounted.
//
// Upstream: pkg/volume/nfs nfsMounter.SetUpAt (v1.36).
func (p *Plugin) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) error {
	source, readOnly := sourceOf(spec)
	if source == nil {
		return errNoSource
	}
	disk, at := p.cfg.FS, p.MountPath(spec, pod.UID)
	if mounted, err := disk.IsMountPoint(at); mounted || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	export := nodefs.Export{Source: sourceName(source), Options: mountOptions(spec, readOnly)}
	if servers := p.cfg.Servers; servers != nil {
		for wait := mountLimit; servers.stopped(export.Source); wait -= mountRetry {
			if wait <= 0 {
				return mountError(export, at, "mount.nfs: Connection timed out\n")
			}
			p.cfg.Process.Sleep(mountRetry)
		}
	}
	err := p.call("SetUp", spec.Name(), fmt.Sprintf("source=%s path=%s", export.Source, at), func() error {
		return p.mount(source, export, at)
	})
	if mounted, failed := disk.IsMountPoint(at); err != nil && failed == nil && mounted {
		return &plugins.Error{Class: plugins.Uncertain, Err: err}
	}
	return err
}

// mount mounts an export. If it fails, nothing remains.
func (p *Plugin) mount(source *corev1.NFSVolumeSource, export nodefs.Export, at string) (err error) {
	disk := p.cfg.FS
	if servers := p.cfg.Servers; servers != nil {
		export.Disk, export.Dir = servers.machine.FS, servers.dir(source)
		if err := servers.machine.FS.MkdirAll(export.Dir); err != nil {
			return mountError(export, at, fmt.Sprintf("mount.nfs: %v\n", err))
		}
	}
	if err := disk.MkdirAll(at); err != nil {
		return err
	}
	if err := disk.MountExport(export, at); err != nil {
		if mounted, _ := disk.IsMountPoint(at); mounted {
			err = errors.Join(err, disk.UnmountExport(at, unmountLimit))
		}
		return errors.Join(err, disk.Remove(at))
	}
	return nil
}

// mountError returns the error of mount(8).
//
// Upstream: k8s.io/mount-utils (v0.36), its text.
func mountError(export nodefs.Export, at, output string) error {
	arguments := []string{"-t", "nfs"}
	if len(export.Options) > 0 {
		arguments = append(arguments, "-o", strings.Join(export.Options, ","))
	}
	return fmt.Errorf("mount failed: exit status 32\nMounting command: mount\nMounting arguments: %s\nOutput: %s",
		strings.Join(append(arguments, export.Source, at), " "), output)
}

// sourceName returns SERVER:PATH, with brackets around an IPv6 address.
//
// Upstream: pkg/volume/nfs getServerFromSource (v1.36).
func sourceName(source *corev1.NFSVolumeSource) string {
	server := source.Server
	if netutil.IsIPv6String(server) {
		server = "[" + server + "]"
	}
	return server + ":" + source.Path
}

// mountOptions returns the options of a PersistentVolume and those of the pod's use, sorted.
//
// Upstream: pkg/volume/util MountOptionFromSpec, JoinMountOptions (v1.36).
func mountOptions(spec *plugins.Spec, readOnly bool) []string {
	options := sets.New[string]()
	if volume := spec.PersistentVolume; volume != nil {
		if annotation, ok := volume.Annotations[corev1.MountOptionAnnotation]; ok {
			options.Insert(strings.Split(annotation, ",")...)
		} else {
			options.Insert(volume.Spec.MountOptions...)
		}
	}
	if readOnly {
		options.Insert("ro")
	}
	return sets.List(options)
}

// TearDown unmounts the export from the pod and removes the pod's directory for it. After a minute
// without an answer of the server it unmounts by force.
//
// Upstream: pkg/volume/nfs nfsUnmounter.TearDownAt, k8s.io/mount-utils CleanupMountWithForce (v1.36).
func (p *Plugin) TearDown(_ context.Context, specName string, pod types.UID) error {
	disk, at := p.cfg.FS, p.mountPath(specName, pod)
	if there, err := disk.Exists(at); err != nil || !there {
		return err
	}
	if servers := p.cfg.Servers; servers != nil && servers.anyStopped() {
		source, err := p.mountedFrom(at)
		if err != nil {
			return err
		}
		if servers.stopped(source) {
			p.cfg.Process.Sleep(unmountLimit)
		}
	}
	return p.call("TearDown", specName, "path="+at, func() error {
		if err := disk.UnmountExport(at, unmountLimit); err != nil && !errors.Is(err, nodefs.ErrNotMounted) {
			return err
		}
		return disk.Remove(at)
	})
}

// mountedFrom returns the source of the mount at a path; "": nothing is mounted there.
func (p *Plugin) mountedFrom(at string) (string, error) {
	mounts, err := p.cfg.FS.Mounts()
	if i := slices.IndexFunc(mounts, func(m nodefs.Mount) bool { return m.Path == at }); i >= 0 {
		return mounts[i].Source, nil
	}
	return "", err
}

// Reconstruct identifies a volume by its mount point. The disk does not tell a PersistentVolume from
// a volume of the pod.
//
// Differs: upstream takes the name of the volume for the path, and has no server.
//
// Upstream: pkg/volume/nfs ConstructVolumeSpec (v1.36).
func (p *Plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	at, from := p.mountPath(specName, pod), ""
	there, err := p.cfg.FS.Exists(at)
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	if err == nil {
		from, err = p.mountedFrom(at)
	}
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume %s: %w", specName, err)
	}
	source := corev1.NFSVolumeSource{Path: specName}
	if i := strings.Index(from, ":/"); i >= 0 {
		source.Server, source.Path = strings.Trim(from[:i], "[]"), from[i+1:]
	}
	return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{
		Name: specName, VolumeSource: corev1.VolumeSource{NFS: &source},
	}}}, nil
}

// call changes the disk as one effect outside the process. An injected fault may come after the
// effect.
func (p *Plugin) call(verb, volume, detail string, do func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Name + "/" + volume}
	err := p.cfg.Process.Call(action, func() trace.Outcome {
		return trace.Outcome{Err: do(), Detail: detail}
	}).Err
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return &plugins.Error{Class: plugins.Uncertain, Err: err}
	default:
		return err
	}
}
