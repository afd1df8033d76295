package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/plugins"
)

// MountPath returns pods/<uid>/volumes/kubernetes.io~csi/<spec name>/mount below the kubelet's
// root.
func (p *Plugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *Plugin) mountPath(specName string, pod types.UID) string {
	return filepath.Join(podVolumeDir(p.cfg.Root, pod, specName), "mount")
}

// A publication describes how a volume is published for a pod.
type publication struct {
	request *csispec.NodePublishVolumeRequest
	label   string // the SELinux label to mount with
	fsGroup *int64 // the group to which the kubelet must change the files once mounted; nil: none
}

// SetUp publishes the volume for the pod. It first records what is needed to undo that. A final
// error of the driver removes the record; an uncertain one leaves it for TearDown. If the volume
// was published before, an error changes nothing. Then it changes the group of the files, if that
// is the kubelet's work; an error of that is uncertain.
//
// Differs: the pod's directory is created after everything else was found; upstream creates it
// before, and leaves it behind. A final error for a volume that is mounted after all is uncertain;
// upstream forgets the volume.
//
// Upstream: pkg/volume/csi csiMountMgr.SetUpAt (v1.36).
func (p *Plugin) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, opts plugins.MountOptions) error {
	v, err := volumeOf(spec, pod)
	if err != nil {
		return errorf("mounter.SetupAt failed to get CSI persistent source: %w", err)
	}
	driver, err := p.driver(v.driver)
	if err != nil {
		return errorf("mounter.SetUpAt failed to get CSI client: %w", err)
	}
	pub, err := p.publication(ctx, driver, v, pod, opts)
	if err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	target := pub.request.GetTargetPath()
	if err := p.cfg.FS.MkdirAll(filepath.Dir(target)); err != nil {
		return errorf("mounter.SetUpAt failed to create dir %q:  %w", filepath.Dir(target), err)
	}
	if err := saveData(p.cfg.FS, filepath.Dir(target), p.podData(v, pub.label)); err != nil {
		return p.abandon(err, target, opts)
	}
	_, err = driver.client.NodePublishVolume(ctx, pub.request)
	if err := p.abandon(classify(err), target, opts); err != nil || pub.fsGroup == nil {
		return err
	}
	err = ownership.Change{
		Process: p.cfg.Process, FS: p.cfg.FS, Volume: v.driver + "/" + v.handle, Dir: target, Pod: pod,
		Group: *pub.fsGroup, Policy: opts.FSGroupChangePolicy, Recorder: opts.Recorder,
	}.Run(ctx)
	if err != nil { // mounted, but not ready for the pod
		return &plugins.Error{
			Class: plugins.Uncertain,
			Err:   fmt.Errorf("applyFSGroup failed for vol %s: %w", v.handle, err),
		}
	}
	return nil
}

// publication assembles the driver's request. After an error nothing was changed.
func (p *Plugin) publication(
	ctx context.Context, driver *nodeDriver, v driverVolume, pod *corev1.Pod, opts plugins.MountOptions,
) (*publication, error) {
	info, err := p.csiDriver(v.driver)
	if err != nil {
		return nil, err
	}
	if err := v.checkLifecycle(info); err != nil {
		return nil, errorf("mounter.SetupAt failed to check volume lifecycle mode: %w", err)
	}
	policy, err := fsGroupPolicy(info)
	if err != nil {
		return nil, errorf("mounter.SetupAt failed to check fsGroup policy: %w", err)
	}
	pub := &publication{label: mountLabel(info, opts)}
	if !driver.mountGroup && v.appliesFSGroup(opts.FSGroup, policy) {
		pub.fsGroup = opts.FSGroup
	}
	pub.request = &csispec.NodePublishVolumeRequest{
		VolumeId:         v.handle,
		TargetPath:       p.MountPath(v.spec, pod.UID),
		VolumeCapability: driver.mountCapability(v.spec.PersistentVolume, v.fsType, pub.label, opts.FSGroup),
		Readonly:         v.readOnly,
	}
	if v.mode == storagev1.VolumeLifecyclePersistent {
		if pub.request.PublishContext, err = p.publishContext(ctx, v.spec); err != nil {
			return nil, errorf("mounter.SetUpAt failed to fetch publishContext: %w", err)
		}
		if driver.stages {
			pub.request.StagingTargetPath = globalMountPath(p.cfg.Root, v.driver, v.handle)
		}
	}
	pub.request.VolumeContext, pub.request.Secrets, err = p.publishAttributes(ctx, info, v, pod)
	return pub, err
}

// publishAttributes returns the attributes and the secrets that the driver receives: the volume's
// own, and what the driver requests of the pod. info is the driver's CSIDriver object.
func (p *Plugin) publishAttributes(ctx context.Context, info *storagev1.CSIDriver, v driverVolume, pod *corev1.Pod) (
	attributes, secrets map[string]string, err error,
) {
	secrets, err = p.secrets(ctx, "NodePublishSecretRef", v.secret)
	if err != nil {
		return nil, nil, err
	}
	attributes = v.attributes
	if info != nil && info.Spec.PodInfoOnMount != nil && *info.Spec.PodInfoOnMount {
		attributes = merged(attributes, v.podInfo(pod))
	}
	tokens, err := p.podTokens(ctx, info, pod)
	if err != nil {
		return nil, nil, errorf("mounter.SetUpAt failed to get service accoount token attributes: %w", err)
	}
	if info != nil && info.Spec.ServiceAccountTokenInSecrets != nil && *info.Spec.ServiceAccountTokenInSecrets {
		return attributes, merged(secrets, tokens), nil
	}
	return merged(attributes, tokens), secrets, nil
}

// merged returns the union of two maps. It does not modify its arguments.
func merged(first, second map[string]string) map[string]string {
	if len(second) == 0 {
		return first
	}
	both := make(map[string]string, len(first)+len(second))
	maps.Copy(both, first)
	maps.Copy(both, second)
	return both
}

// podInfo returns the attributes of the pod for drivers that request them.
//
// Upstream: pkg/volume/csi getPodInfoAttrs (v1.36).
func (v driverVolume) podInfo(pod *corev1.Pod) map[string]string {
	return map[string]string{
		"csi.storage.k8s.io/pod.name":            pod.Name,
		"csi.storage.k8s.io/pod.namespace":       pod.Namespace,
		"csi.storage.k8s.io/pod.uid":             string(pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": pod.Spec.ServiceAccountName,
		"csi.storage.k8s.io/ephemeral":           strconv.FormatBool(v.mode == storagev1.VolumeLifecycleEphemeral),
	}
}

func (p *Plugin) podData(v driverVolume, label string) volumeData {
	return volumeData{
		SpecVolID:           v.spec.Name(),
		VolumeHandle:        v.handle,
		DriverName:          v.driver,
		NodeName:            string(p.cfg.NodeName),
		AttachmentID:        AttachmentName(v.handle, v.driver, p.cfg.NodeName),
		VolumeLifecycleMode: string(v.mode),
		SELinuxMountContext: label,
	}
}

// TearDown unpublishes the volume from the pod and removes its directory.
//
// Differs: if the record is lost, a mount that still exists is an error, and a bare directory is
// removed; upstream fails in both cases until the directory is removed manually.
//
// Upstream: pkg/volume/csi csiPlugin.NewUnmounter, csiMountMgr.TearDownAt (v1.36).
func (p *Plugin) TearDown(ctx context.Context, specName string, pod types.UID) error {
	p.tokens.Forget(pod)
	target := p.mountPath(specName, pod)
	data, err := loadData(p.cfg.FS, filepath.Dir(target))
	if errors.Is(err, fs.ErrNotExist) {
		return removeMount(p.cfg.FS, target)
	}
	if err != nil {
		return err
	}
	driver, err := p.driver(data.DriverName)
	if err != nil {
		return errorf("Unmounter.TearDownAt failed to get CSI client: %w", err)
	}
	_, err = driver.client.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{
		VolumeId: data.VolumeHandle, TargetPath: target,
	})
	if err != nil {
		return classify(err)
	}
	return removeMount(p.cfg.FS, target)
}
