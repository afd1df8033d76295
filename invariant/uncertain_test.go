package invariant_test

import (
	"testing"

	"google.golang.org/grpc/codes"
)

func TestUncertainRule(t *testing.T) {
	const (
		mayBeStaged  = "which may be staged on node-1: NodeStageVolume with DeadlineExceeded, and this is still uncertain"
		droppedStage = "node node-1 no longer reports volume disk in use, " + mayBeStaged
	)
	playHand(t, true, []handStory{
		{"I24", "is violated by dropping a volume with a stage that timed out", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, failed(codes.DeadlineExceeded))
			w.uses(node1)
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
		}, []string{droppedStage}},
		{"I24", "is violated by a restarted kubelet that does not reconstruct the volume", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.DeadlineExceeded))
			w.event("crash", "kubelet(node-1)")
			w.uses(node1)
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
		}, []string{droppedStage}},
		{"I24", "is violated by dropping a volume with a failed unpublish", func(w *hand) {
			w.uses(node1, handle)
			w.published(node1, "web")
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"), failed(codes.Internal))
			w.uses(node1)
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
		}, []string{
			"node node-1 no longer reports volume disk in use, which may be mounted on node-1 at " + podPath("web") +
				": NodeUnpublishVolume with Internal, and this is still uncertain",
		}},
		{"I24", "is violated by unstaging a volume that may be published", func(w *hand) {
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"), failed(codes.Unavailable))
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
		}, []string{
			"volume disk is unstaged on node node-1, but it may be mounted on node-1 at " + podPath("web") +
				": NodePublishVolume with Unavailable, and this is still uncertain",
		}},
		{"I24", "is violated by a state that stays uncertain", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.Aborted))
		}, []string{"volume disk may be staged on node-1: NodeStageVolume with Aborted, and this is still uncertain"}},
		{"I24", "allows a mount to be repeated until its state is certain", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.DeadlineExceeded))
			w.kubeletCalls(node1, "NodeStageVolume", staging)
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"), failed(codes.Unavailable))
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"))
		}, nil},
		{"I24", "allows dropping an unmounted volume", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"), lost(codes.Unavailable))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.DeadlineExceeded))
			w.kubeletCalls(node1, "NodeUnstageVolume", staging, failed(codes.Internal))
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
			w.uses(node1)
		}, nil},
		{"I24", "allows dropping a volume after a final mount error", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, failed(codes.DeadlineExceeded))
			w.kubeletCalls(node1, "NodeStageVolume", staging, failed(codes.InvalidArgument))
			w.kubeletCalls(node1, "NodePublishVolume", podPath("web"), lost(codes.Unavailable))
			w.calls("kubelet(node-1)/volume reconciler", "NodePublishVolume", "", failed(codes.Internal))
			w.uses(node1)
		}, nil},
		{"I24", "allows dropping a volume after a reboot of its node", func(w *hand) {
			w.uses(node1, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.DeadlineExceeded))
			w.event("reboot", node1)
			w.uses(node1)
		}, nil},
		{"I24", "ignores a partitioned node and other nodes at rest", func(w *hand) {
			w.uses(node1, handle)
			w.uses(node2, handle)
			w.kubeletCalls(node1, "NodeStageVolume", staging, lost(codes.DeadlineExceeded))
			w.uses(node2)
			w.ready(node1, false)
		}, nil},
	})
}
