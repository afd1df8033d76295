package invariant_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins/csi"
)

func TestAttachRules(t *testing.T) {
	mountedThere := func(w *hand) {
		w.attachment(node1)
		w.attachedTo(node1)
		w.lists(node1, handle)
		w.mount(node1, handle, staging)
	}
	goes := func(w *hand) {
		w.lists(node1)
		w.deleteAttachment(node1)
		w.attacherCalls("ControllerUnpublishVolume", node1)
	}
	playHand(t, false, []handStory{
		{"I15", "is violated by a second node", func(w *hand) {
			w.attachment(node1)
			w.attachment(node2)
			w.attachedTo(node1, node2)
			w.attacherCalls("ControllerPublishVolume", node2)
		}, []string{"volume pv (disk) is for one node, and attached to node-1 and node-2"}},
		{"I15", "is violated although the answer is lost", func(w *hand) {
			w.attachment(node2)
			w.attachedTo(node1, node2)
			w.attacherCalls("ControllerPublishVolume", node2, lost(codes.Unavailable))
		}, []string{"volume pv (disk) is for one node, and attached to node-1 and node-2"}},
		{"I15", "allows two nodes for a ReadWriteMany volume", func(w *hand) {
			w.wide()
			w.attachment(node1)
			w.attachment(node2)
			w.attachedTo(node1, node2)
			w.attacherCalls("ControllerPublishVolume", node2)
		}, nil},

		{"I16", "is violated on a healthy node", func(w *hand) {
			mountedThere(w)
			goes(w)
		}, []string{"volume disk is detached from node node-1, which has it mounted at " + staging}},
		{"I16", "is violated by a failed call, too", func(w *hand) {
			mountedThere(w)
			w.attacherCalls("ControllerUnpublishVolume", node1, failed(codes.Internal))
		}, []string{"volume disk is detached from node node-1, which has it mounted at " + staging}},
		{"I16", "is violated on a node that was not ready before", func(w *hand) {
			mountedThere(w)
			w.ready(node1, false)
			w.ready(node1, true)
			w.now = w.now.Add(time.Hour)
			goes(w)
		}, []string{"volume disk is detached from node node-1, which has it mounted at " + staging}},
		{"I16", "is violated on a node that is not ready, without waiting", func(w *hand) {
			mountedThere(w)
			w.ready(node1, false)
			w.now = w.now.Add(5 * time.Minute)
			goes(w)
		}, []string{"volume disk is detached from node node-1, which is not ready, too early; it is mounted there at " +
			staging}},
		{"I16", "allows a detach of an unmounted volume", func(w *hand) {
			mountedThere(w)
			w.unmount(node1, staging)
			goes(w)
		}, nil},
		{"I16", "allows a detach from a node that is not ready for a long time", func(w *hand) {
			mountedThere(w)
			w.ready(node1, false)
			w.now = w.now.Add(6 * time.Minute)
			goes(w)
		}, nil},
		{"I16", "allows a detach from a node that has recovered since the decision", func(w *hand) {
			mountedThere(w)
			w.ready(node1, false)
			w.now = w.now.Add(6 * time.Minute)
			w.lists(node1)
			w.deleteAttachment(node1)
			w.ready(node1, true)
			w.attacherCalls("ControllerUnpublishVolume", node1)
		}, nil},
		{"I16", "allows a detach from a node that is out of service", func(w *hand) {
			mountedThere(w)
			w.changeNode(node1, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			})
			goes(w)
		}, nil},
		{"I16", "allows a detach from a deleted node", func(w *hand) {
			mountedThere(w)
			w.deleteNode(node1)
			w.deleteAttachment(node1)
			w.attacherCalls("ControllerUnpublishVolume", node1)
		}, nil},

		{"I16b", "is violated by an attachment next to one that is being deleted", func(w *hand) {
			w.attachment(node1)
			w.deleteAttachment(node1)
			w.attachment(node2)
		}, []string{"volume pv, which is for one node, will be attached to node-2, but it still has an attachment to node-1"}},
		{"I16b", "allows a volume to move after its attachment is deleted", func(w *hand) {
			w.attachment(node1)
			w.deleteAttachment(node1)
			w.releaseAttachment(node1)
			w.attachment(node2)
		}, nil},
		{"I16b", "allows two nodes for a ReadWriteMany volume", func(w *hand) {
			w.wide()
			w.attachment(node1)
			w.attachment(node2)
		}, nil},

		{"I19", "is violated while the node's status lists the volume", func(w *hand) {
			w.attachment(node1)
			w.attachmentSays(node1)
			w.lists(node1, handle)
			w.deleteAttachment(node1)
		}, []string{"volume pv is being detached from node node-1, whose status still lists it as attached"}},
		{"I19", "allows a detach after the volume was removed from the node's status", func(w *hand) {
			w.attachment(node1)
			w.attachmentSays(node1)
			w.lists(node1, handle)
			w.lists(node2, handle)
			w.lists(node1, "other")
			w.deleteAttachment(node1)
			w.lists(node1, handle, "other") // already being deleted
			w.deleteAttachment(node1)
		}, nil},

		{"I20", "is violated without an attachment", func(w *hand) {
			w.lists(node1, handle)
		}, []string{"node node-1 lists volume disk as attached, but there is no attachment"}},
		{"I20", "is violated by an attachment that is not attached", func(w *hand) {
			w.attachment(node1)
			w.lists(node1, handle)
		}, []string{"node node-1 lists volume disk as attached, but its attachment is not attached"}},
		{"I20", "is violated by an attachment that is being deleted", func(w *hand) {
			w.attachment(node1)
			w.attachmentSays(node1)
			w.deleteAttachment(node1)
			w.lists(node1, handle)
		}, []string{"node node-1 lists volume disk as attached, but its attachment is being deleted"}},
		{"I20", "allows a correct list, and a stale one for a limited time", func(w *hand) {
			w.attachment(node1)
			w.attachmentSays(node1)
			w.lists(node1, handle)
			w.deleteAttachment(node1)
			w.releaseAttachment(node1)
			w.uses(node1, handle) // the list is unchanged
		}, nil},

		{"I21", "is violated by the name of another node", func(w *hand) {
			w.attachmentOf("pv", csi.AttachmentName(handle, stubDriver, node2), node1)
		}, []string{"attachment " + csi.AttachmentName(handle, stubDriver, node2) +
			" of volume pv to node node-1 has the name of another"}},
		{"I21", "is violated by another driver", func(w *hand) {
			v := csiVolume("alien", "x", corev1.ReadWriteOnce)
			v.Spec.CSI.Driver = "other"
			w.add(v)
			w.attachmentOf("alien", csi.AttachmentName("x", "other", node1), node1)
		}, []string{"attachment " + csi.AttachmentName("x", "other", node1) +
			" is for driver array, but its volume alien is of driver other"}},
		{"I21", "is violated by another name for an inline volume", func(w *hand) {
			w.inlineAttachment(csi.AttachmentName(handle, stubDriver, node2), node1)
		}, []string{"attachment " + csi.AttachmentName(handle, stubDriver, node2) +
			" of volume disk to node node-1 has the name of another"}},
		{"I21", "allows an inline volume", func(w *hand) {
			w.inlineAttachment(csi.AttachmentName(handle, stubDriver, node1), node1)
		}, nil},
		{"I21", "allows the same name for the same attachment", func(w *hand) {
			w.attachment(node1)
			w.deleteAttachment(node1)
			w.releaseAttachment(node1)
			w.attachment(node1)
		}, nil},

		{"I22", "is violated while the attachment is not being deleted", func(w *hand) {
			w.attachment(node1)
			w.attachmentSays(node1)
			w.attacherCalls("ControllerUnpublishVolume", node1)
		}, []string{"volume disk is detached from node node-1, but its attachment is not being deleted"}},
		{"I22", "allows a repeated detach, and one after the attachment is deleted", func(w *hand) {
			w.attachment(node1)
			w.attachmentSays(node1)
			w.deleteAttachment(node1)
			w.attacherCalls("ControllerUnpublishVolume", node1)
			w.attacherCalls("ControllerUnpublishVolume", node1)
			w.releaseAttachment(node1)
			w.attacherCalls("ControllerUnpublishVolume", node1)
			w.attachment(node1)
			w.attacherCalls("ControllerUnpublishVolume", node1) // nothing is attached yet
		}, nil},
	})
}
