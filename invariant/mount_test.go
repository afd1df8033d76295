package invariant_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
)

func TestMountRules(t *testing.T) {
	reported := func(w *hand) {
		w.uses(node1, handle)
		w.lists(node1, handle)
	}
	unpublish := func(w *hand) { w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web")) }
	playHand(t, true, []handStory{
		{"I25", "is violated by a file that is deleted with its pod", func(w *hand) {
			w.pod("web", node1, corev1.PodRunning)
			w.devices.files[handle] = []string{"a", "b"}
			w.endPod("web", false)
			w.devices.files[handle] = []string{"b"}
			unpublish(w)
		}, []string{"file a of volume disk is gone; seen at NodeUnpublishVolume"}},
		{"I25", "is violated by a restart that empties a volume", func(w *hand) {
			w.devices.files[handle] = []string{"a"}
			w.event("crash", "kubelet(node-1)")
			w.devices.files[handle] = nil
		}, []string{"file a of volume disk is gone; seen at a look at all volumes"}},
		{"I25", "allows files to be created, and deleted with the volume", func(w *hand) {
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"))
			w.devices.files[handle] = []string{"a"}
			unpublish(w)
			w.devices.files[handle] = []string{"a", "b"}
			w.attacherCalls("ControllerUnpublishVolume", node1)
			volume := w.devices.volumes[handle]
			delete(w.devices.volumes, handle)
			w.calls("attacher/attachments", "ControllerUnpublishVolume", "node=node-1")
			w.devices.volumes[handle], w.devices.files[handle] = volume, nil
		}, nil},

		{"I26", "is violated by a mount of a pod that was deleted meanwhile", func(w *hand) {
			w.mount(node1, handle, podPath("web"))
			w.event("crash", "kubelet(node-1)")
		}, []string{"node node-1, whose kubelet was restarted, has volume disk mounted at " + podPath("web") +
			", for a pod that is gone"}},
		{"I26", "is violated by a staged volume that no pod needs", func(w *hand) {
			w.pod("web", node2, corev1.PodRunning)
			w.mount(node1, handle, staging)
			w.event("crash", "kubelet(node-1) with pods 1 behind")
		}, []string{"node node-1, whose kubelet was restarted, has volume disk mounted at " + staging +
			", and no pod of the node needs it"}},
		{"I26", "allows a restarted kubelet to keep volumes that a pod needs", func(w *hand) {
			w.pod("web", node1, corev1.PodRunning)
			w.mount(node1, handle, staging)
			w.mount(node1, handle, podPath("web"))
			w.event("crash", "kubelet(node-1)")
		}, nil},
		{"I26", "ignores a kubelet that was not restarted", func(w *hand) {
			w.mount(node1, handle, podPath("web"))
			w.event("crash", "kubelet(node-2)")
			w.event("relist", "kubelet(node-1) pods")
		}, nil},

		{"I27", "is violated by unmounting the volume of a running pod", func(w *hand) {
			w.pod("web", node1, corev1.PodRunning)
			unpublish(w)
		}, []string{"volume disk is unmounted from pod default/web, which runs on node node-1"}},
		{"I27", "allows unmounting the volume of a pod that is being deleted", func(w *hand) {
			w.pod("web", node1, corev1.PodRunning)
			w.endPod("web", false)
			unpublish(w)
		}, nil},
		{"I27", "allows unmounting the volume of a pod that has ended, or was deleted and recreated", func(w *hand) {
			w.pod("web", node1, corev1.PodSucceeded)
			unpublish(w)
			w.endPod("web", true)
			w.pod("web2", node1, corev1.PodRunning)
			unpublish(w)
		}, nil},
		{"I27", "allows a failed unmount", func(w *hand) {
			w.pod("web", node1, corev1.PodRunning)
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"), failed(codes.Internal))
		}, nil},

		{"I35", "is violated by a volume that the node does not report in use", func(w *hand) {
			w.lists(node1, handle)
			w.staged(node1)
		}, []string{"volume disk is mounted on node node-1, which has not reported it in use"}},
		{"I35", "is violated by a volume that the node's status does not list as attached", func(w *hand) {
			w.uses(node1, handle)
			w.staged(node1)
		}, []string{"volume disk is mounted on node node-1, which never listed it as attached"}},
		{"I35", "is violated by a volume that was listed before it was reported again", func(w *hand) {
			reported(w)
			w.lists(node1)
			w.uses(node1)
			w.uses(node1, handle)
			w.staged(node1)
		}, []string{"volume disk is mounted on node node-1, which never listed it as attached"}},
		{"I35", "allows a volume that was reported and listed", func(w *hand) {
			reported(w)
			w.staged(node1)
			w.published(node1, "web")
		}, nil},
		{"I35", "allows a volume that is removed from the list for a moment", func(w *hand) {
			reported(w)
			w.lists(node1)
			w.staged(node1)
		}, nil},
		{"I35", "ignores a recreated node", func(w *hand) {
			reported(w)
			w.deleteNode(node1)
			w.staged(node1)
			w.add(readyNode(node1))
			w.published(node1, "web")
		}, nil},

		{"I36", "is violated by a mounted volume that is not reported in use", func(w *hand) {
			reported(w)
			w.mount(node1, handle, staging)
			w.uses(node1)
		}, []string{"node node-1 no longer reports volume disk in use, which is mounted at " + staging}},
		{"I36", "allows the report to end after the unmount", func(w *hand) {
			reported(w)
			w.mount(node1, handle, staging)
			w.mount(node2, handle, staging)
			w.unmount(node1, staging)
			w.uses(node1)
		}, nil},
		{"I36", "ignores a recreated node", func(w *hand) {
			reported(w)
			w.mount(node1, handle, staging)
			w.deleteNode(node1)
			w.add(readyNode(node1))
		}, nil},

		{"I37", "is violated by two mounts at one path", func(w *hand) {
			w.mount(node1, handle, podPath("web"))
			w.published(node1, "web")
		}, []string{"volume disk is published on node node-1 at " + podPath("web") + ", where there are 2 mounts now"}},
		{"I37", "is violated by a path that belongs to no pod", func(w *hand) {
			w.kubeletCalls(node1, "NodePublishVolume", "/mnt")
		}, []string{"volume disk is published on node node-1 at /mnt, which is not the path of a pod's volume"}},
		{"I37", "allows a volume to be published for two pods, and for one again", func(w *hand) {
			w.published(node1, "web")
			w.published(node1, "web2")
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"))
		}, nil},
	})
}
