package invariant_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
)

func TestStageRules(t *testing.T) {
	up := func(w *hand) {
		w.attachedTo(node1)
		w.staged(node1)
		w.published(node1, "web")
	}
	playHand(t, false, []handStory{
		{"I17", "is violated by staging a volume that is not attached", func(w *hand) {
			w.attachedTo(node2)
			w.staged(node1)
		}, []string{"volume disk is staged on node node-1, to which it is not attached"}},
		{"I17", "is violated by publishing a volume that is not attached", func(w *hand) {
			w.mount(node1, handle, staging)
			w.published(node1, "web")
		}, []string{"volume disk is published on node node-1, to which it is not attached"}},
		{"I17", "is violated by publishing a volume that is not staged", func(w *hand) {
			w.attachedTo(node1)
			w.published(node1, "web")
		}, []string{"volume disk is published on node node-1 at " + podPath("web") + ", but it is not staged there"}},
		{"I17", "is violated by unstaging a published volume", func(w *hand) {
			up(w)
			w.unmount(node1, staging)
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
		}, []string{"volume disk is unstaged on node node-1, but still published at " + podPath("web")}},
		{"I17", "is violated by staging twice", func(w *hand) {
			w.attachedTo(node1)
			w.staged(node1)
			w.kubeletCalls(node1, "NodeStageVolume", staging)
		}, []string{"volume disk is staged on node node-1 again, although it was already staged"}},
		{"I17", "allows the calls in order", func(w *hand) {
			up(w)
			w.unmount(node1, podPath("web"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
			w.unmount(node1, staging)
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
			up(w)
		}, nil},
		{"I17", "allows a repeated stage after a lost answer, or while it is uncertain", func(w *hand) {
			w.attachedTo(node1)
			w.mount(node1, handle, staging)
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.Unavailable))
			w.kubeletCalls(node1, "NodeStageVolume", staging)
			w.kubeletCalls(node1, "NodeUnstageVolume", staging, failed(codes.Internal))
			w.kubeletCalls(node1, "NodeStageVolume", staging)
			w.event("crash", "kubelet(node-1)")
			w.kubeletCalls(node1, "NodeStageVolume", staging)
		}, nil},
		{"I17", "allows a failed call that is too early", func(w *hand) {
			w.kubeletCalls(node1, "NodeStageVolume", staging, failed(codes.FailedPrecondition))
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"), failed(codes.FailedPrecondition))
		}, nil},

		{"I18", "is violated by another volume at the path", func(w *hand) {
			w.mount(node1, "old", staging)
			w.kubeletCalls(node1, "NodeStageVolume", staging)
		}, []string{"volume disk was mounted on node node-1 at " + staging + ", where volume old is mounted"}},
		{"I18", "is violated by another volume below", func(w *hand) {
			w.mount(node1, "old", staging)
			w.staged(node1)
		}, []string{"volume disk was mounted on node node-1 at " + staging + ", where volume old is mounted"}},
		{"I18", "is violated by the path of another volume", func(w *hand) {
			w.add(csiVolume("pv2", "disk2", corev1.ReadWriteOnce))
			path := "/pods/web/volumes/kubernetes.io~csi/pv2/mount"
			w.mount(node1, handle, path)
			w.kubeletCalls(node1, "NodePublishVolume", path)
		}, []string{"volume disk was published on node node-1 at /pods/web/volumes/kubernetes.io~csi/pv2/mount, which is the path of volume pv2 (disk2)"}},
		{"I18", "allows two volumes at their own paths", func(w *hand) {
			w.mount(node1, "old", "/plugins/kubernetes.io/csi/array/y/globalmount")
			w.mount(node2, "old", staging)
			up(w)
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"))
		}, nil},
	})
}
