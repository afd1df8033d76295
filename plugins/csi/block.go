package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
)

// GlobalMapPath returns plugins/kubernetes.io/csi/volumeDevices/<spec name>/dev below the kubelet's
// root.
//
// Upstream: pkg/volume/csi csiBlockMapper.GetGlobalMapPath (v1.36).
func (p *Plugin) GlobalMapPath(spec *plugins.Spec) (string, error) {
	return p.globalMapPath(spec.Name()), nil
}

func (p *Plugin) globalMapPath(specName string) string {
	return filepath.Join(p.blockDir(specName), "dev")
}

// PodDeviceMapPath returns pods/<uid>/volumeDevices/kubernetes.io~csi below the kubelet's root, and
// the spec's name.
//
// Upstream: pkg/volume/csi csiBlockMapper.GetPodDeviceMapPath (v1.36).
func (p *Plugin) PodDeviceMapPath(specName string, pod types.UID) (dir, link string) {
	return filepath.Join(p.cfg.Root, "pods", string(pod), volumeDevices,
		utilstrings.EscapeQualifiedName(PluginName)), specName
}

// stagingPath returns where the driver stages a block volume:
// plugins/kubernetes.io/csi/volumeDevices/staging/<spec name> below the kubelet's root.
//
// Upstream: pkg/volume/csi csiBlockMapper.GetStagingPath (v1.36).
func (p *Plugin) stagingPath(specName string) string {
	return filepath.Join(p.devicesDir(), "staging", specName)
}

// publishDir returns the directory in which the driver publishes the device: one file per pod.
func (p *Plugin) publishDir(specName string) string {
	return filepath.Join(p.devicesDir(), "publish", specName)
}

func (p *Plugin) publishPath(specName string, pod types.UID) string {
	return filepath.Join(p.publishDir(specName), string(pod))
}

// blockDir returns the directory of the plugin's records of a block volume.
func (p *Plugin) blockDir(specName string) string {
	return filepath.Join(p.devicesDir(), utilstrings.EscapeQualifiedName(specName))
}

func (p *Plugin) devicesDir() string {
	return filepath.Join(p.cfg.Root, "plugins", PluginName, volumeDevices)
}

// saveBlock records what is needed to undo the use of a block volume.
func (p *Plugin) saveBlock(spec *plugins.Spec) error {
	source := spec.PersistentVolume.Spec.CSI
	dir := filepath.Join(p.blockDir(spec.Name()), "data")
	if err := p.cfg.FS.MkdirAll(dir); err != nil {
		return errorf("failed to create data dir %s:  %w", dir, err)
	}
	err := saveData(p.cfg.FS, dir, volumeData{
		SpecVolID:    spec.Name(),
		VolumeHandle: source.VolumeHandle,
		DriverName:   source.Driver,
		NodeName:     string(p.cfg.NodeName),
		AttachmentID: AttachmentName(source.VolumeHandle, source.Driver, p.cfg.NodeName),
	})
	if err != nil {
		return errorf("csi.NewBlockVolumeMapper failed to save volume info data: %w", err)
	}
	return nil
}

func (p *Plugin) loadBlock(specName string) (volumeData, error) {
	return loadData(p.cfg.FS, filepath.Join(p.blockDir(specName), "data"))
}

// SetUpDevice stages the volume as a device if the driver stages volumes. It first records what is
// needed to undo that. A final error removes the record and the directories; if that fails, because
// something was staged after all, the error is uncertain. If the volume was staged before the
// kubelet started, an error changes nothing.
//
// Differs: the record is written after everything else was found; upstream writes it before, and
// leaves it behind. A final error for a volume that is staged after all is uncertain; upstream
// forgets the volume, and removes the record of what an earlier kubelet staged.
//
// Upstream: pkg/volume/csi csiPlugin.NewBlockVolumeMapper, csiBlockMapper.SetUpDevice (v1.36).
func (p *Plugin) SetUpDevice(
	ctx context.Context, spec *plugins.Spec, _ *corev1.Pod, opts plugins.MountOptions,
) (string, error) {
	source, err := sourceOf(spec)
	if err != nil {
		return "", errorf("blockMapper.SetUpDevice failed to get CSI persistent source: %w", err)
	}
	publishContext, err := p.publishContext(ctx, spec)
	if err != nil {
		return "", transientErrorf("blockMapper.SetupDevice failed to get volume attachment: %w", err)
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return "", transientErrorf("blockMapper.SetUpDevice failed to get CSI client: %w", err)
	}
	if !driver.stages {
		return "", nil
	}
	secrets, err := p.secrets(ctx, "NodeStageSecretRef", source.NodeStageSecretRef)
	if err != nil {
		return "", transientErrorf("failed to get NodeStageSecretRef %s/%s: %w",
			source.NodeStageSecretRef.Namespace, source.NodeStageSecretRef.Name, err)
	}
	staging := p.stagingPath(spec.Name())
	if err := p.saveBlock(spec); err != nil {
		return "", p.abandonBlock(err, spec.Name(), opts)
	}
	if err := p.cfg.FS.MkdirAll(staging); err != nil {
		return "", p.abandonBlock(errorf("blockMapper.stageVolumeForBlock failed to create dir %s: %w", staging, err),
			spec.Name(), opts)
	}
	_, err = driver.client.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{
		VolumeId:          source.VolumeHandle,
		PublishContext:    publishContext,
		StagingTargetPath: staging,
		VolumeCapability:  driver.blockCapability(spec.PersistentVolume),
		Secrets:           secrets,
		VolumeContext:     source.VolumeAttributes,
	})
	if err != nil {
		return "", p.abandonBlock(classify(err), spec.Name(), opts)
	}
	return staging, nil
}

// abandonBlock is abandon for a block volume that could not be staged.
func (p *Plugin) abandonBlock(err error, specName string, opts plugins.MountOptions) error {
	if plugins.ClassOf(err) != plugins.Final || opts.Remount || opts.Reconstructed {
		return err
	}
	if removeErr := p.removeBlock(specName); removeErr != nil {
		return &plugins.Error{Class: plugins.Uncertain, Err: errors.Join(err, removeErr)}
	}
	return err
}

// MapPodDevice publishes the volume as a device for the pod, and returns the path. It first records
// what is needed to undo that; TearDownDevice removes the record.
//
// Differs: a final error for a volume that is published after all is uncertain; upstream forgets
// the volume.
//
// Upstream: pkg/volume/csi csiPlugin.NewBlockVolumeMapper, csiBlockMapper.MapPodDevice (v1.36).
func (p *Plugin) MapPodDevice(
	ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, opts plugins.MountOptions,
) (string, error) {
	if _, err := sourceOf(spec); err != nil {
		return "", errorf("blockMapper.MapPodDevice failed to get CSI persistent source: %w", err)
	}
	driver, request, err := p.blockPublication(ctx, spec, pod)
	if err != nil {
		return "", &plugins.Error{Class: plugins.Transient, Err: err}
	}
	target := request.GetTargetPath()
	if err := p.saveBlock(spec); err != nil {
		return "", err
	}
	if err := p.cfg.FS.MkdirAll(filepath.Dir(target)); err != nil {
		return "", errorf("blockMapper.publishVolumeForBlock failed to create dir %s:  %w", filepath.Dir(target), err)
	}
	_, err = driver.client.NodePublishVolume(ctx, request)
	if err = classify(err); err != nil && plugins.ClassOf(err) == plugins.Final && !opts.Remount &&
		!opts.Reconstructed {
		if removeErr := removeIfExists(p.cfg.FS, target); removeErr != nil {
			err = &plugins.Error{Class: plugins.Uncertain, Err: errors.Join(err, removeErr)}
		}
	}
	if err != nil {
		return "", err
	}
	return target, nil
}

// blockPublication assembles the driver's request. After an error nothing was changed.
func (p *Plugin) blockPublication(
	ctx context.Context, spec *plugins.Spec, pod *corev1.Pod,
) (*nodeDriver, *csispec.NodePublishVolumeRequest, error) {
	v, err := volumeOf(spec, pod)
	if err != nil {
		return nil, nil, err
	}
	publishContext, err := p.publishContext(ctx, spec)
	if err != nil {
		return nil, nil, errorf("blockMapper.MapPodDevice failed to get volume attachment: %w", err)
	}
	driver, err := p.driver(v.driver)
	if err != nil {
		return nil, nil, errorf("blockMapper.MapPodDevice failed to get CSI client: %w", err)
	}
	attributes, err := p.blockAttributes(v, pod)
	if err != nil {
		return nil, nil, errorf("blockMapper.publishVolumeForBlock failed to assemble volume attributes: %w", err)
	}
	secrets, err := p.secrets(ctx, "NodePublishSecretRef", v.secret)
	if err != nil {
		return nil, nil, errorf("blockMapper.publishVolumeForBlock failed to get NodePublishSecretRef %s/%s: %w",
			v.secret.Namespace, v.secret.Name, err)
	}
	return driver, &csispec.NodePublishVolumeRequest{
		VolumeId:          v.handle,
		PublishContext:    publishContext,
		StagingTargetPath: p.stagingPath(spec.Name()),
		TargetPath:        p.publishPath(spec.Name(), pod.UID),
		VolumeCapability:  driver.blockCapability(spec.PersistentVolume),
		Readonly:          v.readOnly,
		Secrets:           secrets,
		VolumeContext:     attributes,
	}, nil
}

// blockAttributes returns the volume's attributes, and those of the pod if the driver requests
// them.
func (p *Plugin) blockAttributes(v driverVolume, pod *corev1.Pod) (map[string]string, error) {
	info, err := p.csiDriver(v.driver)
	if err != nil {
		return nil, err
	}
	if wantsPodInfo(info) {
		return merged(v.attributes, v.podInfo(pod)), nil
	}
	return v.attributes, nil
}

// wantsPodInfo reports whether the driver requests the attributes of the pod.
func wantsPodInfo(driver *storagev1.CSIDriver) bool {
	return driver != nil && driver.Spec.PodInfoOnMount != nil && *driver.Spec.PodInfoOnMount
}

// UnmapPodDevice unpublishes the volume from the pod. It calls the driver even if there is no
// device: the call that published it may have timed out.
//
// Differs: if the record is lost, a device that still exists is an error, and no device is success;
// upstream never finishes.
//
// Upstream: pkg/volume/csi csiBlockMapper.UnmapPodDevice (v1.36).
func (p *Plugin) UnmapPodDevice(ctx context.Context, specName string, pod types.UID) error {
	target := p.publishPath(specName, pod)
	data, err := p.loadBlock(specName)
	if errors.Is(err, fs.ErrNotExist) {
		return removeIfExists(p.cfg.FS, target)
	}
	if err != nil {
		return errorf("unmapper failed to load volume data file [%s]: %w", p.blockDir(specName), err)
	}
	driver, err := p.driver(data.DriverName)
	if err != nil {
		return transientErrorf("blockMapper.UnmapPodDevice failed to get CSI client: %w", err)
	}
	_, err = driver.client.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{
		VolumeId: data.VolumeHandle, TargetPath: target,
	})
	if err != nil {
		return errorf("blockMapper.unpublishVolumeForBlock failed: %w", classify(err))
	}
	return nil
}

// TearDownDevice unstages the volume and removes its records. It does not call the driver if
// nothing is staged.
//
// Differs: failing to remove something at the end, because the driver left it behind or it is
// mounted, is an error; upstream ignores it and forgets the volume.
//
// Upstream: pkg/volume/csi csiBlockMapper.TearDownDevice (v1.36).
func (p *Plugin) TearDownDevice(ctx context.Context, spec *plugins.Spec) error {
	source, err := sourceOf(spec)
	if err != nil {
		return err
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return transientErrorf("blockMapper.TearDownDevice failed to get CSI client: %w", err)
	}
	staging := p.stagingPath(spec.Name())
	staged, err := p.cfg.FS.Exists(staging)
	if err != nil {
		return err
	}
	if staged && driver.stages {
		_, err := driver.client.NodeUnstageVolume(ctx, &csispec.NodeUnstageVolumeRequest{
			VolumeId: source.VolumeHandle, StagingTargetPath: staging,
		})
		if err != nil {
			return errorf("blockMapper.unstageVolumeForBlock failed: %w", classify(err))
		}
		if err := p.cfg.FS.RemoveAll(staging); err != nil {
			return errorf("blockMapper.unstageVolumeForBlock failed to remove staging path after "+
				"NodeUnstageVolume() error [%s]: %w", staging, err)
		}
	}
	return p.removeBlock(spec.Name())
}

// removeBlock removes what remains of an unused block volume: the directories in which it was
// published and staged, which must be empty, and its records.
//
// Upstream: pkg/volume/csi csiBlockMapper.cleanupOrphanDeviceFiles (v1.36).
func (p *Plugin) removeBlock(specName string) error {
	for _, dir := range []string{p.publishDir(specName), p.stagingPath(specName)} {
		if err := removeIfExists(p.cfg.FS, dir); err != nil {
			return err
		}
	}
	return p.cfg.FS.RemoveAll(p.blockDir(specName))
}

// removeIfExists removes a file or an empty directory, if it exists.
func removeIfExists(disk nodefs.Writer, path string) error {
	if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// ReconstructBlock reads the record that SetUpDevice and MapPodDevice write before they call the
// driver.
//
// Upstream: pkg/volume/csi csiPlugin.ConstructBlockVolumeSpec (v1.36).
func (p *Plugin) ReconstructBlock(specName string, _ types.UID) (plugins.Reconstructed, error) {
	data, err := p.loadBlock(specName)
	if err != nil {
		return plugins.Reconstructed{}, errorf("plugin.ConstructBlockVolumeSpec failed loading volume data using [%s]: %w",
			p.blockDir(specName), err)
	}
	mode := corev1.PersistentVolumeBlock
	return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: specName},
		Spec: corev1.PersistentVolumeSpec{
			VolumeMode: &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: data.DriverName, VolumeHandle: data.VolumeHandle},
			},
		},
	}}}, nil
}

// blockCapability returns the capability that describes a block volume to the driver.
func (d *nodeDriver) blockCapability(volume *corev1.PersistentVolume) *csispec.VolumeCapability {
	return &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: d.accessMode(volume)},
		AccessType: &csispec.VolumeCapability_Block{Block: &csispec.VolumeCapability_BlockVolume{}},
	}
}

// transientErrorf returns an error for an operation that did not begin.
func transientErrorf(format string, args ...any) error {
	return &plugins.Error{Class: plugins.Transient, Err: errorf(format, args...)}
}
