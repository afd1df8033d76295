package csi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// Reconstruct reads which volume it is in the data file beside the mount, which SetUp writes before it asks the driver.
//
// Upstream: pkg/volume/csi csiPlugin.ConstructVolumeSpec (v1.36).
func (p *Plugin) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	data, err := loadData(p.cfg.FS, podVolumeDir(p.cfg.Root, pod, specName))
	if err != nil {
		return plugins.Reconstructed{}, fmt.Errorf("reconstruct volume: %w", err)
	}
	return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: specName},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: data.DriverName, VolumeHandle: data.VolumeHandle},
		}},
	}}}, nil
}
