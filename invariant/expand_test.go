package invariant

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim/trace"
)

func TestSizes(t *testing.T) {
	made := func(v *corev1.PersistentVolume) { v.Annotations = map[string]string{provisionedBy: "disk"} }
	resize := func(w *opsWorld, v *corev1.PersistentVolume, size string) *corev1.PersistentVolume {
		v = v.DeepCopy()
		v.Spec.Capacity = sizeOf(size)
		v, err := w.User.CoreV1().PersistentVolumes().Update(w.Context(), v, updateOptions)
		w.NoError(err)
		return v
	}
	tests := []struct {
		name string
		play func(w *opsWorld, claim *corev1.PersistentVolumeClaim)
		want []string
	}{
		{"bound, and expanded after the volume", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			v := w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			resize(w, v, "2Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "2Gi")
		}, nil},
		{"expanded before the volume", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "2Gi")
		}, []string{"I33: a claim that shrinks or exceeds its volume, or a volume expanded on a node before its backend: " +
			"claim default/data says that it has 2Gi, but its volume " +
			"pv never had more than 1Gi"}},
		{"shrunk", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "512Mi")
		}, []string{"claim default/data is bound, and its capacity fell from 1Gi to 512Mi"}},
		{"Lost, and without capacity", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.addVolume("pv", "vol-1", claim, nil)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			w.setClaimStatus(claim, corev1.ClaimLost, "0")
		}, nil},
		{"a user wrote a smaller volume", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			v := w.addVolume("pv", "vol-1", claim, nil)
			resize(w, v, "512Mi")
			w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
		}, nil},
		{"with the size from the driver", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 30}}
			w.addVolume("pv", "vol-1", claim, made)
		}, nil},
		{"larger than the size from the driver", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 30}}
			v := w.addVolume("pv", "vol-1", claim, made)
			resize(w, v, "2Gi")
		}, []string{"volume pv says that it has 2Gi, but vol-1 has 1073741824 bytes at the driver"}},
		{"expanded before its file system", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 2 << 30, FSBytes: 1 << 30}}
			v := w.addVolume("pv", "vol-1", claim, made)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			resize(w, v, "2Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "2Gi")
		}, []string{"claim default/data says that it has 2Gi now, but the file system in vol-1 has 1073741824 bytes"}},
		{"expanded with its file system", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 2 << 30, FSBytes: 2 << 30}}
			v := w.addVolume("pv", "vol-1", claim, made)
			claim = w.setClaimStatus(claim, corev1.ClaimBound, "1Gi")
			resize(w, v, "2Gi")
			w.setClaimStatus(claim, corev1.ClaimBound, "2Gi")
		}, nil},
		{"a node is asked to expand a missing volume", func(w *opsWorld, _ *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 30}}
			w.expandOn("vol-1", 1<<30)
			w.expandOn("vol-1", 1<<30+1)
		}, []string{"1073741825 bytes of volume vol-1 are asked for on node node-1, and it has 1073741824 at the driver"}},
		{"a volume that a user created", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
			w.devices.volumes = []Volume{{Handle: "vol-1", Bytes: 1 << 20}}
			w.addVolume("pv", "vol-1", claim, nil)
		}, nil},
		{"a volume that the driver no longer has", func(w *opsWorld, claim *corev1.PersistentVolumeClaim) {
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

// expandOn makes a kubelet request a size of a volume.
func (w *opsWorld) expandOn(handle string, bytes int64) {
	w.Host.Log().Append(trace.Record{
		Task:    "kubelet(node-1)/volume_fs_resize csi/disk^" + handle,
		Action:  trace.Action{Kind: trace.KindDriver, Verb: "NodeExpandVolume", Object: "disk/" + handle},
		Outcome: trace.Outcome{Detail: fmt.Sprintf("bytes=%d path=/kubelet/pod", bytes)},
	})
}
