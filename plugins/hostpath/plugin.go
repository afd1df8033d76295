package hostpath

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Name is the name of the plugin, and of the provisioner in a class.
const Name = "kubernetes.io/host-path"

// The annotation of a volume created here.
//
// Upstream: pkg/volume/util VolumeDynamicallyCreatedByKey (v1.36).
const (
	annCreatedBy = "kubernetes.io/createdby"
	createdBy    = "hostpath-dynamic-provisioner"
)

// How long a recycler pod may run: the minimum, and the time per GiB.
//
// Upstream: pkg/controller/volume/persistentvolume/config/v1alpha1 MinimumTimeoutHostPath,
// IncrementTimeoutHostPath (v1.36).
const (
	recycleMin    = 60 * time.Second
	recyclePerGiB = 30 * time.Second
)

// Config configures a Plugin.
type Config struct {
	Caller  sim.Caller // calls that access the disk leave its process
	Machine Machine    // on which volumes are created and deleted
	// Recycler empties volumes. Only Recycle needs it.
	Recycler *recycler.Recycler
	// Provisioning enables Provision.
	//
	// Upstream: cmd/kube-controller-manager --enable-hostpath-provisioner (v1.36), which is off by
	// default.
	Provisioning bool
}

// Plugin is the host-path plugin. It keeps no state in memory.
//
// Upstream: pkg/volume/hostpath hostPathPlugin (v1.36).
type Plugin struct{ cfg Config }

var (
	_ plugins.Provisioner = (*Plugin)(nil)
	_ plugins.Deleter     = (*Plugin)(nil)
	_ plugins.Recycler    = (*Plugin)(nil)
)

// New returns the plugin of one process.
func New(cfg Config) *Plugin { return &Plugin{cfg: cfg} }

// Name returns "kubernetes.io/host-path".
func (p *Plugin) Name() string { return Name }

// CanSupport reports whether the volume is a directory of the machine.
func (p *Plugin) CanSupport(spec *plugins.Spec) bool { return sourceOf(spec) != nil }

// VolumeName returns the directory's path.
func (p *Plugin) VolumeName(spec *plugins.Spec) (string, error) {
	source := sourceOf(spec)
	if source == nil {
		return "", errors.New("spec does not reference an HostPath volume type")
	}
	return source.Path, nil
}

func sourceOf(spec *plugins.Spec) *corev1.HostPathVolumeSource {
	switch {
	case spec.Volume != nil && spec.Volume.HostPath != nil:
		return spec.Volume.HostPath
	case spec.PersistentVolume != nil:
		return spec.PersistentVolume.Spec.HostPath
	default:
		return nil
	}
}

// SupportsMountOptions reports whether volumes can have mount options: always false, as nothing is
// mounted.
func (p *Plugin) SupportsMountOptions() bool { return false }

// CanProvision returns an error unless Config.Provisioning is set.
//
// Upstream: pkg/volume/hostpath NewProvisioner (v1.36).
func (p *Plugin) CanProvision(plugins.ProvisionOptions) error {
	if !p.cfg.Provisioning {
		return fmt.Errorf("provisioning in volume plugin %q is disabled", Name)
	}
	return nil
}

// Provision creates a directory below /tmp/hostpath_pv. It ignores nodes and topologies.
//
// Differs: upstream chooses a random name for the directory at each call. Here the name is the
// claim's UID, so that an earlier attempt is found again.
//
// Upstream: pkg/volume/hostpath hostPathProvisioner.Provision (v1.36).
func (p *Plugin) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	claim := opts.Claim
	if ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock {
		return nil, fmt.Errorf("%s does not support block volume provisioning", Name)
	}
	uid := string(claim.UID)
	if uid == "" || uid != path.Base(uid) || strings.Trim(uid, ".") == "" {
		return nil, fmt.Errorf("UID %q of claim %s/%s is not a valid directory name", uid, claim.Namespace, claim.Name)
	}
	dir := path.Join(volumesDir, uid)
	if err := p.call("Provision", opts.Name, dir, p.cfg.Machine.make); err != nil {
		return nil, classify(err)
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	volume := &corev1.PersistentVolume{}
	volume.Name = opts.Name
	volume.Annotations = map[string]string{annCreatedBy: createdBy}
	volume.Spec = corev1.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: opts.ReclaimPolicy,
		AccessModes:                   claim.Spec.AccessModes,
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: dir},
		},
	}
	if len(volume.Spec.AccessModes) == 0 {
		volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return volume.DeepCopy(), nil
}

// classify wraps an error with its class if the call may have had its effect. Errors of the disk
// are final.
func classify(err error) error {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return &plugins.Error{Class: plugins.Uncertain, Err: err}
	default:
		return err
	}
}

// CanDelete returns an error unless the volume is a directory of the machine.
//
// Upstream: pkg/volume/hostpath newDeleter (v1.36).
func (p *Plugin) CanDelete(spec *plugins.Spec) error {
	if spec.PersistentVolume == nil || spec.PersistentVolume.Spec.HostPath == nil {
		return errors.New("spec.PersistentVolumeSource.HostPath is nil")
	}
	return nil
}

// Delete removes the directory and its contents if it is below /tmp.
//
// Differs: upstream accepts any path that contains /tmp/, and removes /home/alice/tmp/photos. Here
// the cleaned path must begin with it, and may not contain "..". A directory in which something is
// mounted is left as it is.
//
// Upstream: pkg/volume/hostpath hostPathDeleter.Delete (v1.36).
func (p *Plugin) Delete(_ context.Context, spec *plugins.Spec) error {
	dir := spec.PersistentVolume.Spec.HostPath.Path
	if !deletable(dir) {
		return fmt.Errorf("host_path deleter only supports /tmp/.+ but received provided %s", dir)
	}
	return p.call("Delete", spec.PersistentVolume.Name, dir, p.cfg.Machine.remove)
}

// Recycle removes the contents of the directory of that path on the machine where the pod runs. The
// directory stays.
//
// Upstream: pkg/volume/hostpath hostPathPlugin.Recycle (v1.36).
func (p *Plugin) Recycle(ctx context.Context, opts plugins.RecycleOptions) error {
	volume := opts.Spec.PersistentVolume
	if volume == nil || volume.Spec.HostPath == nil {
		return errors.New("spec.PersistentVolume.Spec.HostPath is nil")
	}
	return p.cfg.Recycler.Run(ctx, recycler.Job{
		Volume: opts.Volume,
		Source: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: volume.Spec.HostPath.Path},
		},
		Deadline:    recycler.Deadline(volume, recycleMin, recyclePerGiB),
		RecordEvent: opts.RecordEvent,
		Acquire:     opts.Acquire,
	})
}

// call changes a directory as one effect outside the process.
func (p *Plugin) call(verb, volume, dir string, do func(dir string) error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Name + "/" + volume}
	return p.cfg.Caller.Call(action, func() trace.Outcome {
		return trace.Outcome{Err: do(dir), Detail: "path=" + dir}
	}).Err
}
