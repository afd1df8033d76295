package invariant

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/sim/trace"
)

const (
	mounting   = "volume_mount"
	unmounting = "volume_unmount"
)

func TestBackoff(t *testing.T) {
	fails := func(w *opsWorld, rests ...time.Duration) {
		for _, rest := range rests {
			w.call(mounting, "NodeStageVolume", "", errDriver)
			w.pass(rest)
		}
	}
	const ms = time.Millisecond
	at, other := "path=/node-1/pods/u/volumes/csi/pv/mount", "path=/node-1/pods/v/volumes/csi/pv/mount"
	attachment := "volumeattachments/csi-1"
	attaching := func(w *opsWorld, err error) {
		w.note("attachdetach/volume_attach csi/disk^vol-1", trace.KindAPI, "create", attachment, "", err)
	}
	tests := []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"the back-off of a first failure is half a second", func(w *opsWorld) {
			fails(w, 500*ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, nil},
		{"a shorter one is too short", func(w *opsWorld) {
			fails(w, 400*ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, []string{"I23: an operation retried less than half a second after it failed: kubelet(node-1): NodeStageVolume of " +
			"disk/vol-1 was retried 400ms after it had failed (1 in a row); its back-off is 500ms"}},
		{"each further failure doubles it", func(w *opsWorld) {
			fails(w, 500*ms, 1000*ms, 2000*ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, nil},
		{"the third one is too short", func(w *opsWorld) {
			fails(w, 500*ms, 1000*ms, 1999*ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, []string{"I23b: an operation retried before its back-off, which doubles with each failure: kubelet(node-1): NodeStageVolume " +
			"of disk/vol-1 was retried 1.999s after it had failed (3 in a row); its back-off is 2s"}},
		{"staging and publishing are one operation", func(w *opsWorld) {
			w.call(mounting, "NodeStageVolume", "", nil)
			w.call(mounting, "NodePublishVolume", at, errDriver)
			w.pass(100 * ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, []string{"retried 100ms after"}},
		{"it is reset by a success", func(w *opsWorld) {
			fails(w, 500*ms)
			w.call(mounting, "NodePublishVolume", at, nil)
			fails(w, 500*ms, 1000*ms)
			w.call(mounting, "NodePublishVolume", at, nil)
		}, nil},
		{"it is reset after a long time", func(w *opsWorld) {
			fails(w, 500*ms, backoffForgot, 500*ms)
			w.call(mounting, "NodePublishVolume", at, nil)
		}, nil},
		{"another operation does not wait", func(w *opsWorld) {
			fails(w, 0)
			w.call("unmount_device", "NodeUnstageVolume", "", nil)
		}, nil},
		{"nor does the unmount of another pod", func(w *opsWorld) {
			w.call(unmounting, "NodeUnpublishVolume", at, errDriver)
			w.call(unmounting, "NodeUnpublishVolume", other, nil)
		}, nil},
		{"the unmount of the same pod does", func(w *opsWorld) {
			w.call(unmounting, "NodeUnpublishVolume", at, errDriver)
			w.call(unmounting, "NodeUnpublishVolume", at, nil)
		}, []string{"NodeUnpublishVolume of disk/vol-1 was retried 0s after"}},
		{"it is reset by a restart of the kubelet", func(w *opsWorld) {
			fails(w, 0)
			w.event("crash", "kubelet(node-1) with pods 1 behind")
			w.call(mounting, "NodeStageVolume", "", nil)
		}, nil},
		{"it is not reset by the restart of another component", func(w *opsWorld) {
			fails(w, 0)
			w.event("crash", "kubelet(node-2)")
			w.event("tick", "")
			w.event("reboot", "node-2")
			w.call(mounting, "NodeStageVolume", "", nil)
		}, []string{"retried 0s after"}},
		{"a pod that has ended may reset it", func(w *opsWorld) {
			pod := w.addPod("web", "node-1")
			fails(w, 500*ms, 1000*ms)
			w.deletePod(pod)
			w.note("kubelet(node-1)/pods", trace.KindWork, "sync", string(pod.UID), "", nil)
			fails(w, 500*ms, 1000*ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, nil},
		{"a running pod does not", func(w *opsWorld) {
			pod := w.addPod("web", "node-1")
			fails(w, 500*ms, 1000*ms)
			w.note("kubelet(node-1)/pods", trace.KindWork, "sync", string(pod.UID), "", nil)
			fails(w, 500*ms)
			w.call(mounting, "NodeStageVolume", "", nil)
		}, []string{"retried 500ms after it had failed (3 in a row); its back-off is 2s"}},
		{"an attach with a failed request backs off, too", func(w *opsWorld) {
			attaching(w, errDriver)
			w.pass(500 * ms)
			attaching(w, errDriver)
			w.pass(499 * ms)
			attaching(w, nil)
			attaching(w, nil)
		}, []string{"attachdetach: create of volumeattachments/csi-1 was retried 499ms after"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "I23", "I23b")
			test.play(w)
			w.broken(test.want...)
		})
	}
}

func TestPendingRetries(t *testing.T) {
	provisioner := func(w *opsWorld, rpc, volume string, err error) {
		w.note("provisioner/claims", trace.KindDriver, rpc, "disk/"+volume, "", err)
	}
	attacher := func(w *opsWorld, rpc, detail string, err error) {
		w.note("attacher/attachments", trace.KindDriver, rpc, "disk/vol-1", detail, err)
	}
	tests := []struct {
		name string
		play func(w *opsWorld)
		want []string
	}{
		{"a failed provisioning for a pending claim", func(w *opsWorld) {
			claim := w.addClaim("data", nil)
			provisioner(w, "CreateVolume", "pvc-"+string(claim.UID), errDriver)
		}, []string{"persistentvolumeclaims/default/data waits for CreateVolume, which failed at 0s (the driver is ill) and was not retried (L7)"}},
		{"provisioned at the second attempt", func(w *opsWorld) {
			claim := w.addClaim("data", nil)
			provisioner(w, "CreateVolume", "pvc-"+string(claim.UID), errDriver)
			provisioner(w, "CreateVolume", "pvc-"+string(claim.UID), nil)
		}, nil},
		{"for a deleted claim", func(w *opsWorld) {
			provisioner(w, "CreateVolume", "pvc-gone", errDriver)
		}, nil},
		{"a failed deletion of a released volume", func(w *opsWorld) {
			v := w.addVolume("pv", "vol-1", nil, func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			})
			v.Status.Phase = corev1.VolumeReleased
			_, err := w.User.CoreV1().PersistentVolumes().UpdateStatus(w.Context(), v, updateOptions)
			w.NoError(err)
			provisioner(w, "DeleteVolume", "vol-1", errDriver)
		}, []string{"persistentvolumes/pv waits for DeleteVolume"}},
		{"a retained volume", func(w *opsWorld) {
			w.addVolume("pv", "vol-1", nil, nil)
			provisioner(w, "DeleteVolume", "vol-1", errDriver)
		}, nil},
		{"a failed attach", func(w *opsWorld) {
			w.addVolume("pv", "vol-1", nil, nil)
			w.addAttachment("pv", "node-1")
			attacher(w, "ControllerPublishVolume", "node=node-1", errDriver)
		}, []string{"volumeattachments/att-pv waits for ControllerPublishVolume"}},
		{"attached later", func(w *opsWorld) {
			w.addVolume("pv", "vol-1", nil, nil)
			w.addAttachment("pv", "node-1")
			attacher(w, "ControllerPublishVolume", "", errDriver)
			attacher(w, "ControllerPublishVolume", "node=node-1", nil)
		}, nil},
		{"after a restart of the attacher", func(w *opsWorld) {
			w.addVolume("pv", "vol-1", nil, nil)
			w.addAttachment("pv", "node-1")
			attacher(w, "ControllerPublishVolume", "node=node-1", errDriver)
			w.event("crash", "attacher")
		}, nil},
		{"a volume of a waiting pod", func(w *opsWorld) {
			pod := w.addPod("web", "node-1")
			w.call(mounting, "NodePublishVolume", path1(pod, "pv"), errDriver)
		}, []string{"pods/default/web waits for NodePublishVolume"}},
		{"a volume without a waiting pod", func(w *opsWorld) {
			pod := w.addPod("web", "node-1")
			w.call(mounting, "NodePublishVolume", path1(pod, "pv"), errDriver)
			w.setPhase(pod, corev1.PodSucceeded)
		}, nil},
		{"a volume with a failed unmount", func(w *opsWorld) {
			w.call(unmounting, "NodeUnpublishVolume", "path=/node-1/pods/u/volumes/csi/pv/mount", errDriver)
			w.call("unmount_device", "NodeUnstageVolume", "path=/node-1/globalmount", errDriver)
		}, []string{"nodes/node-1 waits for NodeUnpublishVolume", "nodes/node-1 waits for NodeUnstageVolume"}},
		{"a volume that is wanted again before its unmount", func(w *opsWorld) {
			w.call("unmount_device", "NodeUnstageVolume", "path=/node-1/globalmount", errDriver)
			w.call(mounting, "NodeStageVolume", "path=/node-1/globalmount", nil)
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "L7")
			test.play(w)
			w.pending(test.want...)
		})
	}
}

// An attached VolumeAttachment requires no second call; one that is being deleted requires the
// detach.
func TestPendingCallsOfAttachments(t *testing.T) {
	w := newOpsWorld(t, "L7")
	w.addVolume("pv", "vol-1", nil, nil)
	a := w.addAttachment("pv", "node-1")
	a.Status = storagev1.VolumeAttachmentStatus{Attached: true}
	_, err := w.User.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, updateOptions)
	w.NoError(err)
	w.note("attacher/attachments", trace.KindDriver, "ControllerPublishVolume", "disk/vol-1", "node=node-1", errDriver)
	w.pending()
	w.note("attacher/attachments", trace.KindDriver, "ControllerUnpublishVolume",
		"disk/vol-1", "node=node-1", errDriver)
	w.pending()
}
