package csi

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// A driverVolume is a volume as its driver sees it: a PersistentVolume, or an inline volume, which
// lives as long as its pod.
type driverVolume struct {
	spec           *plugins.Spec
	mode           storagev1.VolumeLifecycleMode
	driver, handle string
	fsType         string
	readOnly       bool
	attributes     map[string]string // read-only, shared; nil: none
	secret         *corev1.SecretReference
}

// volumeOf returns the volume to publish for the pod.
//
// Differs: a PersistentVolume that says it is read-only is; upstream considers only the pod, and
// leaves it to the driver's controller.
//
// Upstream: pkg/volume/csi csiPlugin.NewMounter, getSourceFromSpec (v1.36).
func volumeOf(spec *plugins.Spec, pod *corev1.Pod) (driverVolume, error) {
	if source := inlineSource(spec); source != nil {
		return inlineVolume(spec, source, pod), nil
	}
	source, err := sourceOf(spec)
	if err != nil {
		return driverVolume{}, err
	}
	return driverVolume{
		spec: spec, mode: storagev1.VolumeLifecyclePersistent, driver: source.Driver, handle: source.VolumeHandle,
		fsType: source.FSType, readOnly: spec.ReadOnly || source.ReadOnly, attributes: source.VolumeAttributes,
		secret: source.NodePublishSecretRef,
	}, nil
}

// inlineSource returns the source of an inline volume of a CSI driver, or nil.
func inlineSource(spec *plugins.Spec) *corev1.CSIVolumeSource {
	if spec.PersistentVolume != nil || spec.Volume == nil {
		return nil
	}
	return spec.Volume.CSI
}

func inlineVolume(spec *plugins.Spec, source *corev1.CSIVolumeSource, pod *corev1.Pod) driverVolume {
	v := driverVolume{
		spec: spec, mode: storagev1.VolumeLifecycleEphemeral, driver: source.Driver,
		handle:     inlineHandle(pod.UID, spec.Name()),
		attributes: source.VolumeAttributes,
	}
	if source.FSType != nil {
		v.fsType = *source.FSType
	}
	if source.ReadOnly != nil {
		v.readOnly = *source.ReadOnly
	}
	if source.NodePublishSecretRef != nil {
		v.secret = &corev1.SecretReference{Namespace: pod.Namespace, Name: source.NodePublishSecretRef.Name}
	}
	return v
}

// inlineHandle returns the handle of an inline volume.
//
// Upstream: pkg/volume/csi makeVolumeHandle (v1.36).
func inlineHandle(pod types.UID, specName string) string {
	return "csi-" + digest(string(pod)+specName)
}

// driverOf returns the name of the volume's driver.
//
// Upstream: pkg/volume/csi GetCSIDriverName (v1.36).
func driverOf(spec *plugins.Spec) (string, error) {
	if source := inlineSource(spec); source != nil {
		return source.Driver, nil
	}
	source, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	return source.Driver, nil
}

// checkLifecycle returns an error unless the driver supports volumes of this lifecycle. driver is
// its CSIDriver object.
//
// Upstream: pkg/volume/csi csiMountMgr.supportsVolumeLifecycleMode (v1.36).
func (v driverVolume) checkLifecycle(driver *storagev1.CSIDriver) error {
	if driver == nil {
		if v.mode == storagev1.VolumeLifecyclePersistent {
			return nil
		}
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", v.mode, v.driver)
	}
	modes := driver.Spec.VolumeLifecycleModes
	if slices.Contains(modes, v.mode) {
		return nil
	}
	return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", v.mode, v.driver, modes)
}

// fsGroupPolicy returns the driver's policy for changing the group of a volume's files.
//
// Upstream: pkg/volume/csi csiMountMgr.getFSGroupPolicy (v1.36).
func fsGroupPolicy(driver *storagev1.CSIDriver) (storagev1.FSGroupPolicy, error) {
	if driver == nil {
		return storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, nil
	}
	if policy := driver.Spec.FSGroupPolicy; policy != nil && *policy != "" {
		return *policy, nil
	}
	return "", errorf("expected valid fsGroupPolicy, received nil value or empty string")
}

// appliesFSGroup reports whether the kubelet must change the group of the volume's files.
//
// Upstream: pkg/volume/csi csiMountMgr.supportsFSGroup (v1.36).
func (v driverVolume) appliesFSGroup(group *int64, policy storagev1.FSGroupPolicy) bool {
	switch {
	case group == nil || v.readOnly || policy == storagev1.NoneFSGroupPolicy:
		return false
	case policy == storagev1.FileFSGroupPolicy:
		return true
	case v.fsType == "":
		return false
	case v.mode == storagev1.VolumeLifecycleEphemeral:
		return true
	}
	return slices.ContainsFunc(v.spec.AccessModes(), func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteOnce || m == corev1.ReadWriteOncePod
	})
}

// errorf returns an error as upstream's plugin words it.
func errorf(format string, args ...any) error { return fmt.Errorf(PluginName+": "+format, args...) }
