package invariant_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// subPathTarget is the path of the subPath of the second volumeMount of a pod's container main.
func subPathTarget(uid string) string { return "/pods/" + uid + "/volume-subpaths/pv/main/1" }

// podWithSubPath is pod with a container whose second volumeMount has a subPath.
func (w *hand) podWithSubPath(uid string, phase corev1.PodPhase) {
	w.t.Helper()
	w.add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{
			NodeName: node1,
			Containers: []corev1.Container{{Name: "main", Image: "pause", VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: "/all"}, {Name: "data", MountPath: "/part", SubPath: "part"},
			}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	})
}

// runs reports the containers of a pod as running.
func (w *hand) runs(name string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Pods("default").Patch(context.Background(), name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	testcheck.NoError(w.t, err)
}

func TestSubPathRules(t *testing.T) {
	inPart := func(w *hand) {
		w.mount(node1, handle, podPath("web"))
		w.mount(node1, handle, subPathTarget("web"))
		w.kubeletCalls(node1, "BindSubPath", subPathTarget("web"))
	}
	noPart := "pod default/web runs on node node-1, and container main has no subPath of data at its path /part"
	playHand(t, false, []handStory{
		{"I40", "is violated by a subPath of a volume that is not mounted", func(w *hand) {
			w.mount(node1, handle, subPathTarget("web"))
			w.kubeletCalls(node1, "BindSubPath", subPathTarget("web"))
		}, []string{"subPath of volume pv is bound on node node-1 at " + subPathTarget("web") +
			", and the volume is not mounted for that pod"}},
		{"I40", "is violated by a directory outside of the volume", func(w *hand) {
			w.mount(node1, handle, podPath("web"))
			w.mount(node1, "node-disk", subPathTarget("web"))
			w.kubeletCalls(node1, "BindSubPath", subPathTarget("web"))
		}, []string{"subPath of volume pv (disk) is bound on node node-1 at " + subPathTarget("web") +
			", where node-disk is mounted"}},
		{"I40", "is violated by a subPath that is bound elsewhere", func(w *hand) {
			w.kubeletCalls(node1, "BindSubPath", "/mnt")
		}, []string{"subPath of a volume is bound on node node-1 at /mnt, which is not the path of a container's"}},
		{"I40", "is violated by a volume that is unmounted before its subPath", func(w *hand) {
			inPart(w)
			w.unmount(node1, podPath("web"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
		}, []string{"volume pv is unmounted from the path of a pod on node node-1, and a subPath of it is still bound at " + subPathTarget("web")}},
		{"I40", "is violated by a container that starts without its subPath", func(w *hand) {
			w.podWithSubPath("web", corev1.PodPending)
			w.mount(node1, handle, podPath("web"))
			w.runs("web")
		}, []string{noPart}},
		{"I40", "allows a subPath to be bound and removed in order, and one of another pod to stay", func(w *hand) {
			w.podWithSubPath("web", corev1.PodPending)
			inPart(w)
			w.runs("web")
			w.mount(node1, handle, podPath("web2"))
			w.mount(node1, handle, subPathTarget("web2"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"), failed(codes.Internal))
			w.unmount(node1, subPathTarget("web"))
			w.kubeletCalls(node1, "UnbindSubPath", subPathTarget("web"))
			w.unmount(node1, podPath("web"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
		}, nil},
		{"I40", "ignores a pod that still runs after a reboot of its node", func(w *hand) {
			w.podWithSubPath("web", corev1.PodRunning)
			w.runs("web")
		}, nil},
		{"I27", "is violated by a subPath removed from a running pod", func(w *hand) {
			w.podWithSubPath("web", corev1.PodRunning)
			w.kubeletCalls(node1, "UnbindSubPath", subPathTarget("web"))
		}, []string{"volume disk is unmounted from pod default/web, which runs on node node-1"}},
		{"I17", "does not treat a subPath as a staged volume", func(w *hand) {
			w.attachedTo(node1)
			w.mount(node1, handle, subPathTarget("web2"))
			w.published(node1, "web")
		}, []string{"volume disk is published on node node-1 at " + podPath("web") + ", but it is not staged there"}},
		{"I17", "is violated by unstaging a volume while a container uses its subPath", func(w *hand) {
			w.mount(node1, handle, subPathTarget("web"))
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
		}, []string{"volume disk is unstaged on node node-1, but still published at " + subPathTarget("web")}},
	})
	playHand(t, true, []handStory{
		{"I27", "is violated at rest by a pod that runs without its subPath", func(w *hand) {
			w.podWithSubPath("web", corev1.PodRunning)
			w.mount(node1, handle, podPath("web"))
		}, []string{noPart}},
		{"I27", "allows a pod to run with its subPath", func(w *hand) {
			w.podWithSubPath("web", corev1.PodRunning)
			inPart(w)
		}, nil},
		{
			"L6", "asks for a part of a pod that is gone", func(w *hand) {
				w.mount(node1, handle, subPathTarget("web"))
			},
			[]string{"nodes/node-1 has volume disk mounted at " + subPathTarget("web") + ", for a pod that is gone"},
		},
		{"I26", "is violated by a subPath of a pod that was deleted meanwhile", func(w *hand) {
			w.mount(node1, handle, subPathTarget("web"))
			w.event("crash", "kubelet(node-1)")
		}, []string{"node node-1, whose kubelet was restarted, has volume disk mounted at " + subPathTarget("web") +
			", for a pod that is gone"}},
	})
}
