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

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/recycler"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Name is the plugin's name, and the provisioner's that a class names.
const Name = "kubernetes.io/host-path"

// What a volume made here is marked with.
//
// Upstream: pkg/volume/util VolumeDynamicallyCreatedByKey (v1.36).
const (
	annCreatedBy = "kubernetes.io/createdby"
	createdBy    = "hostpath-dynamic-provisioner"
)

// How long a recycler pod may run, at least and for each GiB.
//
// Upstream: pkg/controller/volume/persistentvolume/config/v1alpha1 MinimumTimeoutHostPath, IncrementTimeoutHostPath (v1.36).
const (
	recycleMin    = 60 * time.Second
	recyclePerGiB = 30 * time.Second
)

// Config is what New must be told.
type Config struct {
	Caller  sim.Caller // whom calls that touch the disk leave
	Machine Machine    // on which volumes are made and deleted
	// Recycler empties volumes. It is needed by Recycle only.
	Recycler *recycler.Recycler
	// Provisioning allows volumes to be made.
	//
	// Upstream: cmd/kube-controller-manager --enable-hostpath-provisioner (v1.36), which is off unless asked for.
	Provisioning bool
}

// Plugin is the plugin. It keeps nothing in memory.
//
// Upstream: pkg/volume/hostpath hostPathPlugin (v1.36).
type Plugin struct{ cfg Config }

var (
	_ plugins.Provisioner = (*Plugin)(nil)
	_ plugins.Deleter     = (*Plugin)(nil)
	_ plugins.Recycler    = (*Plugin)(nil)
)

// New makes the plugin of one process.
func New(cfg Config) *Plugin { return &Plugin{cfg: cfg} }

// Name is "kubernetes.io/host-path".
func (p *Plugin) Name() string { return Name }

// CanSupport tells whether the volume is a directory of the machine.
func (p *Plugin) CanSupport(spec *plugins.Spec) bool { return sourceOf(spec) != nil }

// VolumeName is the directory's path.
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

// SupportsMountOptions is false: nothing is mounted.
func (p *Plugin) SupportsMountOptions() bool { return false }

// CanProvision says that no volumes are made, unless that is allowed.
//
// Upstream: pkg/volume/hostpath NewProvisioner (v1.36).
func (p *Plugin) CanProvision(plugins.ProvisionOptions) error {
	if !p.cfg.Provisioning {
		return fmt.Errorf("provisioning in volume plugin %q is disabled", Name)
	}
	return nil
}

// Provision makes a directory below /tmp/hostpath_pv. Nodes and topologies do not matter to it.
//
// Differs: upstream draws a new name for the directory each time; here it is the UID of the claim, so that what was made is
// found again.
//
// Upstream: pkg/volume/hostpath hostPathProvisioner.Provision (v1.36).
func (p *Plugin) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	claim := opts.Claim
	if ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock {
		return nil, fmt.Errorf("%s does not support block volume provisioning", Name)
	}
	uid := string(claim.UID)
	if uid == "" || uid != path.Base(uid) || strings.Trim(uid, ".") == "" {
		return nil, fmt.Errorf("UID %q of claim %s/%s is no name of a directory", uid, claim.Namespace, claim.Name)
	}
	dir := path.Join(volumesDir, uid)
	if err := p.call("Provision", opts.Name, dir, p.cfg.Machine.make); err != nil {
		return nil, classify(err)
	}
	volume := &corev1.PersistentVolume{}
	volume.Name = opts.Name
	volume.Annotations = map[string]string{annCreatedBy: createdBy}
	volume.Spec = corev1.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: opts.ReclaimPolicy,
		AccessModes:                   claim.Spec.AccessModes,
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: dir},
		},
	}
	if len(volume.Spec.AccessModes) == 0 {
		volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return volume.DeepCopy(), nil
}

// classify gives the error of a call whose answer may only have been lost its class. Those of the disk are final.
func classify(err error) error {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return &plugins.Error{Class: plugins.Uncertain, Err: err}
	default:
		return err
	}
}

// CanDelete says that the volume is no directory of the machine.
//
// Upstream: pkg/volume/hostpath newDeleter (v1.36).
func (p *Plugin) CanDelete(spec *plugins.Spec) error {
	if spec.PersistentVolume == nil || spec.PersistentVolume.Spec.HostPath == nil {
		return errors.New("spec.PersistentVolumeSource.HostPath is nil")
	}
	return nil
}

// Delete removes the directory, and whatever is in it, if it is below /tmp.
//
// Differs: upstream takes any path that has /tmp/ somewhere in it, and removes /home/alice/tmp/photos. Here the path, tidied,
// must begin with it, and may not climb. And a directory in which something is mounted is left as it is.
//
// Upstream: pkg/volume/hostpath hostPathDeleter.Delete (v1.36).
func (p *Plugin) Delete(_ context.Context, spec *plugins.Spec) error {
	dir := spec.PersistentVolume.Spec.HostPath.Path
	if !deletable(dir) {
		return fmt.Errorf("host_path deleter only supports /tmp/.+ but received provided %s", dir)
	}
	return p.call("Delete", spec.PersistentVolume.Name, dir, p.cfg.Machine.remove)
}

// Recycle removes all that is in the directory of that path of the machine on which the pod runs, and leaves the directory.
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

// call does something to a directory as one effect outside the component.
func (p *Plugin) call(verb, volume, dir string, do func(dir string) error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: Name + "/" + volume}
	return p.cfg.Caller.Call(action, func() trace.Outcome {
		return trace.Outcome{Err: do(dir), Detail: "path=" + dir}
	}).Err
}
