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

// partPath is where the container main of a pod has part of its volume by its second volumeMount.
func partPath(uid string) string { return "/pods/" + uid + "/volume-subpaths/pv/main/1" }

// podWithPart is pod, whose container has part of the volume by its second volumeMount.
func (w *hand) podWithPart(uid string, phase corev1.PodPhase) {
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

// runs says that a pod's containers run.
func (w *hand) runs(name string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Pods("default").Patch(context.Background(), name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	testcheck.NoError(w.t, err)
}

func TestRulesOfParts(t *testing.T) {
	inPart := func(w *hand) {
		w.mount(node1, handle, podPath("web"))
		w.mount(node1, handle, partPath("web"))
		w.kubeletCalls(node1, "BindSubPath", partPath("web"))
	}
	noPart := "pod default/web runs on node node-1, and container main has no subPath of data at its path /part"
	tell(t, false, []handStory{
		{"I40", "is broken by a part of a volume that is not mounted", func(w *hand) {
			w.mount(node1, handle, partPath("web"))
			w.kubeletCalls(node1, "BindSubPath", partPath("web"))
		}, []string{"subPath of volume pv is bound on node node-1 at " + partPath("web") + ", and the volume is not mounted for that pod"}},
		{"I40", "is broken by what is no part of the volume", func(w *hand) {
			w.mount(node1, handle, podPath("web"))
			w.mount(node1, "node-disk", partPath("web"))
			w.kubeletCalls(node1, "BindSubPath", partPath("web"))
		}, []string{"subPath of volume pv (disk) is bound on node node-1 at " + partPath("web") + ", where node-disk is mounted"}},
		{"I40", "is broken by a part that is bound elsewhere", func(w *hand) {
			w.kubeletCalls(node1, "BindSubPath", "/mnt")
		}, []string{"subPath of a volume is bound on node node-1 at /mnt, which is not the path of a container's"}},
		{"I40", "is broken by a volume that goes before its part", func(w *hand) {
			inPart(w)
			w.unmount(node1, podPath("web"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
		}, []string{"volume pv is unmounted from the path of a pod on node node-1, and a subPath of it is still bound at " + partPath("web")}},
		{"I40", "is broken by a container that starts without its part", func(w *hand) {
			w.podWithPart("web", corev1.PodPending)
			w.mount(node1, handle, podPath("web"))
			w.runs("web")
		}, []string{noPart}},
		{"I40", "lets a part come and go in order, and one of another pod stay", func(w *hand) {
			w.podWithPart("web", corev1.PodPending)
			inPart(w)
			w.runs("web")
			w.mount(node1, handle, podPath("web2"))
			w.mount(node1, handle, partPath("web2"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"), failed(codes.Internal))
			w.unmount(node1, partPath("web"))
			w.kubeletCalls(node1, "UnbindSubPath", partPath("web"))
			w.unmount(node1, podPath("web"))
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
		}, nil},
		{"I40", "asks nothing of a pod that runs still, when its node has booted", func(w *hand) {
			w.podWithPart("web", corev1.PodRunning)
			w.runs("web")
		}, nil},
		{"I27", "is broken by a part taken away from a pod that runs", func(w *hand) {
			w.podWithPart("web", corev1.PodRunning)
			w.kubeletCalls(node1, "UnbindSubPath", partPath("web"))
		}, []string{"volume disk is unmounted from pod default/web, which runs on node node-1"}},
		{"I17", "takes a part for no stage", func(w *hand) {
			w.attachedTo(node1)
			w.mount(node1, handle, partPath("web2"))
			w.published(node1, "web")
		}, []string{"volume disk is published on node node-1 at " + podPath("web") + ", but it is not staged there"}},
		{"I17", "is broken by unstaging what a container has part of", func(w *hand) {
			w.mount(node1, handle, partPath("web"))
			w.kubeletCalls(node1, "NodeUnstageVolume", staging)
		}, []string{"volume disk is unstaged on node node-1, but still published at " + partPath("web")}},
	})
	tell(t, true, []handStory{
		{"I27", "is broken at rest by a pod that runs without its part", func(w *hand) {
			w.podWithPart("web", corev1.PodRunning)
			w.mount(node1, handle, podPath("web"))
		}, []string{noPart}},
		{"I27", "lets a pod run with its part", func(w *hand) {
			w.podWithPart("web", corev1.PodRunning)
			inPart(w)
		}, nil},
		{
			"L6", "asks for a part of a pod that is gone", func(w *hand) { w.mount(node1, handle, partPath("web")) },
			[]string{"nodes/node-1 has volume disk mounted at " + partPath("web") + ", for a pod that is gone"},
		},
		{"I26", "is broken by a part of a pod that went meanwhile", func(w *hand) {
			w.mount(node1, handle, partPath("web"))
			w.befalls("crash", "kubelet(node-1)")
		}, []string{"node node-1, whose kubelet was restarted, has volume disk mounted at " + partPath("web") + ", for a pod that is gone"}},
	})
}
