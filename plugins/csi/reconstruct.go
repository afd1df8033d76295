package csi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// Reconstruct reads the record next to the mount, which SetUp writes before it calls the driver.
//
// Upstream: pkg/volume/csi csiPlugin.ConstructVolumeSpec (v1.36).
func (p *Plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	data, err := loadData(p.cfg.FS, podVolumeDir(p.cfg.Root, pod, specName))
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume: %w", err)
	}
	reconstructed := plugins.Reconstructed{SELinuxLabel: data.SELinuxMountContext}
	if data.VolumeLifecycleMode == string(storagev1.VolumeLifecycleEphemeral) {
		reconstructed.Spec = &plugins.Spec{Volume: &corev1.Volume{
			Name:         specName,
			VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: data.DriverName}},
		}}
		return reconstructed, nil
	}
	mode := corev1.PersistentVolumeFilesystem
	reconstructed.Spec = &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: specName},
		Spec: corev1.PersistentVolumeSpec{
			VolumeMode: &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: data.DriverName, VolumeHandle: data.VolumeHandle},
			},
		},
	}}
	return reconstructed, nil
}
