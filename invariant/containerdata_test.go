package invariant_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// access records that the container main of the pod web has accessed a path.
func (w *hand) access(verb, path string) {
	w.log.Append(trace.Record{
		Task: "containers(" + node1 + ")/web/main/0/1", Action: trace.Action{Kind: trace.KindWork, Verb: verb, Object: path},
	})
}

// mounted adds the running pod web, for which pv is mounted.
func (w *hand) mounted() {
	w.t.Helper()
	w.podWith(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})
	w.devices.mounts[node1] = []nodefs.Mount{{Path: podPath("web"), Source: handle}}
	testcheck.NoError(w.t, w.devices.disk.MkdirAll(podPath("web")))
}

// writes is the container that writes a file of pv.
func (w *hand) writes(data string) {
	w.t.Helper()
	w.file(podPath("web")+"/f", data)
	w.access("write", "/v/f")
}

// publishes records that the volume is published again.
func (w *hand) publishes() { w.kubeletCalls(node1, "NodePublishVolume", podPath("web")) }

func TestContainerDataRules(t *testing.T) {
	file := podPath("web") + "/f"
	lost := []string{"volume pv on node node-1, claim default/data, does not have file f, which a container wrote"}
	playHand(t, false, []handStory{
		{"I68", "is violated by a file that is gone", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.remove(file)
			w.publishes()
			w.publishes() // reported once
		}, lost},
		{"I68", "is violated by other data", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.file(file, "2")
			w.access("read", "/v/f")
		}, []string{"volume pv on node node-1, claim default/data, has other data than file f, which a container wrote"}},
		{"I68", "is violated by synced data that a reboot loses", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.access("sync", "/")
			w.event("reboot", node1)
			w.remove(file)
			w.publishes()
		}, lost},
		{"I68", "is violated by the data of one synced file that a reboot loses", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.access("sync", "/v/f")
			w.event("reboot", node1)
			w.remove(file)
			w.publishes()
		}, lost},
		{"I68", "is violated by unmounted data that a reboot loses", func(w *hand) {
			w.mounted()
			w.writes("1")
			mounts := w.devices.mounts[node1]
			w.devices.mounts[node1] = nil
			w.kubeletCalls(node1, "NodeUnpublishVolume", podPath("web"))
			w.event("reboot", node1)
			w.remove(file)
			w.devices.mounts[node1] = mounts
			w.publishes()
		}, lost},
		{"I68", "allows data that was not synced to be lost at a reboot", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.access("sync", "/v/other")
			w.event("reboot", node1)
			w.remove(file)
			w.publishes()
		}, nil},
		{"I68", "allows the reboot of another node to lose nothing", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.event("reboot", node2)
			w.remove(file)
			w.publishes()
		}, lost},
		{"I68", "allows a container to change and remove files", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.writes("2")
			w.publishes()
			w.remove(file)
			w.access("remove", "/v/f")
			w.publishes()
		}, nil},
		{"I68", "ignores a volume that is deleted", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.kubeletCalls(node1, "DeleteVolume", "")
			w.remove(file)
			w.publishes()
		}, nil},
		{"I70", "is violated by an access before the mount", func(w *hand) {
			w.mounted()
			w.devices.mounts[node1] = nil
			w.access("create", "/v/f")
		}, []string{"container main of pod default/web accesses (create) /v/f on node node-1, where volume pv is not mounted"}},
		{"I70", "is violated by an access after the pod is gone", func(w *hand) {
			w.mounted()
			w.access("create", "/v/f")
			w.endPod("web", true)
			w.devices.mounts[node1] = nil
			w.access("stat", "/v")
		}, []string{"container main of pod web accesses (stat) /v on node node-1, where volume pv is not mounted"}},
		{"I70", "allows other paths without a mount", func(w *hand) {
			w.mounted()
			w.devices.mounts[node1] = nil
			w.access("create", "/var")
		}, nil},
		{"I70", "allows an access to the mounted volume", func(w *hand) {
			w.mounted()
			w.access("create", "/v/f")
		}, nil},
		{
			"I69", "is violated by a clone without the file", func(w *hand) { w.clone(true) },
			[]string{"volume pvc-clone-uid on node node-1, claim default/clone, does not have file f of claim default/data"},
		},
		{"I69", "allows a clone without a file that was not synced", func(w *hand) { w.clone(false) }, nil},
		{"I68", "is not about clones", func(w *hand) { w.clone(true) }, nil},
	})
	playHand(t, true, []handStory{
		{"I68", "is violated at rest by a file that is gone", func(w *hand) {
			w.mounted()
			w.writes("1")
			w.remove(file)
		}, lost},
	})
}

// clone makes an empty clone of data, into which a container has written.
func (w *hand) clone(synced bool) {
	w.t.Helper()
	w.mounted()
	w.writes("1")
	if synced {
		w.access("sync", "/")
	}
	w.add(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "clone", UID: "clone-uid"},
		Spec:       corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}},
	})
	w.log.Append(trace.Record{Task: "provisioner/claims", Action: trace.Action{
		Kind: trace.KindDriver, Verb: "CreateVolume", Object: stubDriver + "/pvc-clone-uid",
	}})
	v := csiVolume("copy", "other", corev1.ReadWriteOnce)
	v.Name, v.Spec.ClaimRef = "pvc-clone-uid", &corev1.ObjectReference{Namespace: "default", Name: "clone", UID: "clone-uid"}
	_, err := w.client.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
	dir := strings.Replace(podPath("web"), "/pv/", "/pvc-clone-uid/", 1)
	testcheck.NoError(w.t, w.devices.disk.MkdirAll(dir))
	w.devices.mounts[node1] = append(w.devices.mounts[node1], nodefs.Mount{Path: dir, Source: "other"})
	w.publishes()
}
