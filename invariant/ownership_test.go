package invariant_test

import (
	"io/fs"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/nodefs"
)

// podOfGroup adds a pod with an fsGroup that uses the claim data; change may change it first.
func (w *hand) podOfGroup(uid string, group int64, change ...func(*corev1.Pod)) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{
			NodeName: node1, Containers: []corev1.Container{{Name: "main", Image: "pause"}},
			SecurityContext: &corev1.PodSecurityContext{FSGroup: &group},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	w.add(pod)
}

// groups sets the owning group of the volume's root and of a file.
func (w *hand) groups(root, file int) {
	w.devices.owners[handle] = map[string]nodefs.Info{
		".": {Mode: fs.ModeDir | fs.ModeSetgid | 0o770, GID: root}, "a": {Mode: 0o660, GID: file},
	}
}

func TestOwnershipRule(t *testing.T) {
	ext4 := func(w *hand) {
		w.server.UpdateStored("persistentvolumes", "", "pv", func(stored fake.Object) fake.Object {
			v := stored.DeepCopyObject().(*corev1.PersistentVolume)
			v.Spec.CSI.FSType = "ext4"
			return v
		})
	}
	policy := func(w *hand, p storagev1.FSGroupPolicy) {
		w.add(&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: stubDriver},
			Spec:       storagev1.CSIDriverSpec{FSGroupPolicy: &p},
		})
	}
	mountAndGive := func(w *hand) {
		w.groups(0, 0)
		w.published(node1, "web")
		w.groups(7, 7)
		w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
	}
	given := []string{
		". of volume disk (pv), which belonged to group 0, now belongs to group 7, and no pod allows that",
		"a of volume disk (pv), which belonged to group 0, now belongs to group 7, and no pod allows that",
	}
	readOnly := func(pod *corev1.Pod) { pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true }
	onMismatch := func(pod *corev1.Pod) {
		mismatch := corev1.FSGroupChangeOnRootMismatch
		pod.Spec.SecurityContext.FSGroupChangePolicy = &mismatch
	}
	playHand(t, true, []handStory{
		{"I39", "allows the fsGroup of a pod", func(w *hand) { ext4(w); w.podOfGroup("web", 7); mountAndGive(w) }, nil},
		{
			"I39", "is violated by another group",
			func(w *hand) { ext4(w); w.podOfGroup("web", 8); mountAndGive(w) }, given,
		},
		{
			"I39", "is violated if the pod has no fsGroup",
			func(w *hand) { ext4(w); w.pod("web", node1, corev1.PodPending); mountAndGive(w) }, given,
		},
		{
			"I39", "is violated if the volume has no file system type",
			func(w *hand) { w.podOfGroup("web", 7); mountAndGive(w) }, given,
		},
		{
			"I39", "is violated for a ReadWriteMany volume",
			func(w *hand) { ext4(w); w.wide(); w.podOfGroup("web", 7); mountAndGive(w) }, given,
		},
		{
			"I39", "is violated for a read-only pod",
			func(w *hand) { ext4(w); w.podOfGroup("web", 7, readOnly); mountAndGive(w) }, given,
		},
		{"I39", "is violated if the driver forbids it", func(w *hand) {
			ext4(w)
			policy(w, storagev1.NoneFSGroupPolicy)
			w.podOfGroup("web", 7)
			mountAndGive(w)
		}, given},
		{"I39", "allows it if the driver always does", func(w *hand) {
			w.wide()
			policy(w, storagev1.FileFSGroupPolicy)
			w.podOfGroup("web", 7)
			mountAndGive(w)
		}, nil},
		{
			"I39", "allows the whole volume if the root has another group",
			func(w *hand) { ext4(w); w.podOfGroup("web", 7, onMismatch); mountAndGive(w) }, nil,
		},
		{"I39", "is violated if the root already matched under OnRootMismatch", func(w *hand) {
			ext4(w)
			w.podOfGroup("web", 7, onMismatch)
			w.groups(7, 0)
			w.published(node1, "web")
			w.groups(7, 7)
		}, given[1:]},
	})
}
