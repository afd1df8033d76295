package invariant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSizes(t *testing.T) {
	made := func(v *corev1.PersistentVolume) { v.Annotations = map[string]string{provisionedBy: "disk"} }
	resize := func(w *opsWorld, v *corev1.PersistentVolume, size string) *corev1.PersistentVolume {
		v = v.DeepCopy()
		v.Spec.Capacity = sizeOf(size)
		v, err := w.client.CoreV1().PersistentVolumes().Update(w.t.Context(), v, updateOptions)
		return did(w, v, err)
	}
	tests := []struct {
		name string
		play func(w *opsWorld, claim *corev1.PersistentVolumeClaim)
		want []string
	}{
		{"bound, and grown after the volume", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			v := w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			resize(w, v, "2Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "2Gi")
		}, nil},
		{"grown before the volume", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "2Gi")
		}, []string{"I33: a claim that shrinks, or says to be larger than its volume is: claim default/data says that it has 2Gi, but its volume " +
			"pv never had more than 1Gi"}},
		{"shrunk", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "512Mi")
		}, []string{"claim default/data is bound, and its capacity fell from 1Gi to 512Mi"}},
		{"lost, and without capacity", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			w.setClaimStatus(claim, corev1.ClaimLost, "0")
		}, nil},
		{"a user wrote a smaller volume", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			v := w.addVolume("pv", "vol-1", claim, nil)
			resize(w, v, "512Mi")
			w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
		}, nil},
		{"as large as the driver made it", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 30}}
			w.addVolume("pv", "vol-1", claim, made)
		}, nil},
		{"larger than the driver made it", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 30}}
			v := w.addVolume("pv", "vol-1", claim, made)
			resize(w, v, "2Gi")
		}, []string{"volume pv says that it has 2Gi, but vol-1 has 1073741824 bytes at the driver"}},
		{"a volume that a user made", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 20}}
			w.addVolume("pv", "vol-1", claim, nil)
		}, nil},
		{"one that is not at the driver any more", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, made)
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I33")
			test.play(w, w.addClaim("data", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }))
			w.broken(test.want...)
		})
	}
}
