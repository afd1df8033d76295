package invariant_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins/csi"
)

func TestNodeLivenessRules(t *testing.T) {
	var (
		attachment1 = "volumeattachments/" + csi.AttachmentName(handle, stubDriver, node1)
		unneeded    = attachment1 + " is of volume pv to node node-1, where no pod needs it: "
	)
	attached := func(w *hand) { // the correct state
		w.attachment(node1)
		w.attachmentSays(node1)
		w.attachedTo(node1)
		w.lists(node1, handle)
	}
	inUse := func(w *hand) {
		attached(w)
		w.pod("web", node1, corev1.PodRunning)
		w.uses(node1, handle)
		w.mount(node1, handle, staging)
		w.mount(node1, handle, podPath("web"))
	}
	playHand(t, true, []handStory{
		{"L4", "lists an attachment of a deleted pod", func(w *hand) {
			inUse(w)
			w.endPod("web", true)
		}, []string{unneeded + "the node reports it in use"}},
		{
			"L4", "lists an attachment that is not being deleted", attached,
			[]string{unneeded + "the node does not use it, and lists it as attached"},
		},
		{
			"L4", "lists an attachment that no component has seen", func(w *hand) { w.attachment(node1) },
			[]string{unneeded + "no component knows of it"},
		},
		{"L4", "lists an attachment of a deleted node", func(w *hand) {
			w.attachment(node1)
			w.deleteNode(node1)
		}, []string{unneeded + "the node is gone, and the attachment was not deleted"}},
		{"L4", "lists an attachment that waits for its attacher", func(w *hand) {
			w.attachment(node1)
			w.deleteAttachment(node1)
		}, []string{unneeded + "it is being deleted, and waits for [external-attacher/array]"}},
		{"L4", "lists an attachment with a failing driver", func(w *hand) {
			w.attachment(node1)
			w.deleteAttachment(node1)
			w.changeAttachment(node1, func(a *storagev1.VolumeAttachment) {
				a.Status.DetachError = &storagev1.VolumeError{Message: "no"}
			})
		}, []string{unneeded + "the driver has not detached it: no"}},
		{"L4", "lists an attachment of a pod that has ended, or is on another node", func(w *hand) {
			w.attachment(node1)
			w.pod("web", node1, corev1.PodSucceeded)
			w.pod("other", node2, corev1.PodRunning)
		}, []string{unneeded + "no component knows of it"}},
		{"L4", "ignores the attachment of a pod, even while it is being deleted", func(w *hand) {
			inUse(w)
			w.endPod("web", false)
		}, nil},

		{"L5", "lists a volume that is attached only by the driver", func(w *hand) {
			w.attachedTo(node1, node2)
		}, []string{
			"volumes/disk is attached to node node-1 by the driver, and there is no attachment",
			"volumes/disk is attached to node node-2 by the driver, and there is no attachment",
		}},
		{"L5", "lists a volume that is attached only by its VolumeAttachment", func(w *hand) {
			attached(w)
			w.attachedTo()
		}, []string{attachment1 + " says that volume pv is attached to node node-1, and the driver does not"}},
		{
			"L5", "lists a volume that is attached only by the node's status", func(w *hand) { w.lists(node1, handle) },
			[]string{"nodes/node-1 lists volume disk as attached, and no attachment says so"},
		},
		{"L5", "lists an attached volume missing in the node's status", func(w *hand) {
			attached(w)
			w.lists(node1)
		}, []string{"nodes/node-1 does not list volume pv as attached, as its attachment says"}},
		{
			"L5", "lists a volume that the node reports in use without a mount", func(w *hand) {
				w.uses(node1, handle)
			},
			[]string{"nodes/node-1 reports volume disk in use, which no pod needs and is not mounted"},
		},
		{
			"L5", "lists a volume that a pod needs", func(w *hand) { w.pod("web", node1, corev1.PodPending) },
			[]string{"pods/default/web needs volume pv, which is not attached to node node-1: no attachment exists"},
		},
		{"L5", "lists a volume that a pod needs and cannot get", func(w *hand) {
			w.pod("web", node1, corev1.PodPending)
			w.attachment(node1)
			w.changeAttachment(node1, func(a *storagev1.VolumeAttachment) {
				a.Status.AttachError = &storagev1.VolumeError{Message: "full"}
			})
		}, []string{"pods/default/web needs volume pv, which is not attached to node node-1: full"}},
		{"L5", "ignores a consistent state", inUse, nil},
		{"L5", "ignores a pod that waits for a volume attached to another node", func(w *hand) {
			inUse(w)
			w.pod("web2", node2, corev1.PodPending)
		}, nil},
		{"L5", "ignores a waiting pod on a partitioned node", func(w *hand) {
			w.pod("web", node1, corev1.PodPending)
			w.ready(node1, false)
		}, nil},

		{
			"L6", "lists a mount of a deleted pod", func(w *hand) { w.mount(node1, handle, podPath("web")) },
			[]string{"nodes/node-1 has volume disk mounted at " + podPath("web") + ", for a pod that is gone"},
		},
		{"L6", "lists mounts of a pod that is being deleted", func(w *hand) {
			inUse(w)
			w.endPod("web", false)
		}, []string{
			"nodes/node-1 has volume disk mounted at " + staging + ", and no pod of the node needs it",
			"nodes/node-1 has volume disk mounted at " + podPath("web") +
				", for pod default/web, which is being deleted",
		}},
		{"L6", "lists mounts of a pod that has ended", func(w *hand) {
			w.pod("web", node1, corev1.PodFailed)
			w.mount(node1, handle, podPath("web"))
		}, []string{"nodes/node-1 has volume disk mounted at " + podPath("web") +
			", for pod default/web, which has ended"}},
		{"L6", "ignores the mounts of a pod", inUse, nil},
		{"L6", "ignores volumes of other plugins of a pod", func(w *hand) {
			w.localVolume("local", "data")
			w.pod("web", node1, corev1.PodRunning)
			w.mount(node1, "/dev/sdb", localMounts+"local")
			w.mount(node1, "devtmpfs", localDevices+"local/web")
			w.mount(node1, "/dev/sdb", "/pods/web/volumes/kubernetes.io~local-volume/local")
			w.mount(node1, "tmpfs", "/pods/web/volumes/kubernetes.io~empty-dir/cache")
		}, nil},
		{"L6", "lists volumes of other plugins that no pod needs", func(w *hand) {
			w.localVolume("local", "data")
			w.localVolume("unclaimed", "")
			w.pod("web", node2, corev1.PodRunning)
			w.mount(node1, "/dev/sdb", localMounts+"local")
			w.mount(node1, "/dev/sdc", localMounts+"unclaimed")
			w.mount(node1, "tmpfs", "/pods/gone/volumes/kubernetes.io~empty-dir/cache")
		}, []string{
			"nodes/node-1 has volume /dev/sdb mounted at " + localMounts + "local, and no pod of the node needs it",
			"nodes/node-1 has volume /dev/sdc mounted at " + localMounts + "unclaimed, and no claim has it",
			"nodes/node-1 has volume tmpfs mounted at /pods/gone/volumes/kubernetes.io~empty-dir/cache, for a pod that is gone",
		}},
		{"L6", "ignores a partitioned node, and a restarted one, which is I26's", func(w *hand) {
			w.mount(node1, handle, podPath("web"))
			w.ready(node1, false)
			w.mount(node2, handle, podPath("web"))
			w.event("crash", "kubelet(node-2)")
		}, nil},
	})
}

// Without devices, rules about them are never violated, and rules about the API are unchanged.
func TestRulesWithoutDevices(t *testing.T) {
	for _, id := range nodeRules {
		t.Run(id, func(t *testing.T) {
			w := newHand(t, id)
			w.watchWithoutDevices(id)
			w.pod("web", node1, corev1.PodRunning)
			w.uses(node1, handle)
			w.attachment(node1)
			w.attachmentSays(node1)
			w.lists(node1, handle)
			w.staged(node1)
			w.event("crash", "kubelet(node-1)")
			w.attacherCalls("ControllerUnpublishVolume", node1)
			if told := w.problems(true); len(told) > 0 {
				t.Errorf("%v", told)
			}
		})
	}
}

// Where local volumes are mounted and mapped for a node.
const (
	localMounts  = "/plugins/kubernetes.io/local-volume/mounts/"
	localDevices = "/plugins/kubernetes.io~local-volume/volumeDevices/"
)

// localVolume adds a local PersistentVolume that a claim has; "" means none.
func (w *hand) localVolume(name, claim string) {
	w.t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.Local = &corev1.LocalVolumeSource{Path: "/dev/" + name}
	if claim != "" {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim}
	}
	w.add(v)
}
