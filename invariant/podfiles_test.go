package invariant_test

import (
	"context"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// The directories of the volumes of the pod web.
const (
	scratchDir = "/pods/web/volumes/kubernetes.io~empty-dir/v"
	configDir  = "/pods/web/volumes/kubernetes.io~configmap/v"
	allDir     = "/pods/web/volumes/kubernetes.io~projected/v"
)

// podWith adds the running pod web on node-1, whose container mounts a volume v.
func (w *hand) podWith(source corev1.VolumeSource) {
	w.t.Helper()
	w.add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"},
		Spec: corev1.PodSpec{
			NodeName: node1,
			Containers: []corev1.Container{{
				Name: "main", Image: "pause", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
			}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

// setConfig sets the data of the config map config.
func (w *hand) setConfig(data map[string]string) {
	w.t.Helper()
	client := w.client.CoreV1().ConfigMaps("default")
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: data}
	_, err := client.Create(context.Background(), o, metav1.CreateOptions{})
	if err != nil {
		_, err = client.Update(context.Background(), o, metav1.UpdateOptions{})
	}
	testcheck.NoError(w.t, err)
}

// file writes a file of a node, and its directories.
func (w *hand) file(name, data string) {
	w.t.Helper()
	testcheck.NoError(w.t, w.devices.disk.MkdirAll(path.Dir(name)), w.devices.disk.WriteFile(name, []byte(data)))
}

func (w *hand) remove(name string) {
	w.t.Helper()
	testcheck.NoError(w.t, w.devices.disk.RemoveAll(name))
}

// content makes the files of a volume the current ones.
func (w *hand) content(dir string, files map[string]string) {
	w.t.Helper()
	w.remove(dir)
	testcheck.NoError(w.t, w.devices.disk.MkdirAll(dir+"/..1"), w.devices.disk.Symlink("..1", dir+"/..data"))
	for name, data := range files { // independent of the order
		w.file(dir+"/..1/"+name, data)
	}
}

var (
	scratch   = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	ofConfig  = corev1.LocalObjectReference{Name: "config"}
	configMap = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ofConfig}}
	allOf     = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ofConfig}},
	}}}
)

func TestPodFilesRules(t *testing.T) {
	first, second := map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "2", "c": "2"}
	updated := func(w *hand) {
		w.setConfig(first)
		w.content(configDir, first)
		w.podWith(configMap)
		w.setConfig(second)
	}
	tmpfs := nodefs.Mount{Path: scratchDir, Source: "tmpfs", FSType: "tmpfs"}
	playHand(t, false, []handStory{
		{"I41", "is violated by a file that vanishes from an emptyDir", func(w *hand) {
			w.podWith(scratch)
			w.file(scratchDir+"/file", "1")
			w.event("crash", "kubelet(node-1)")
			w.remove(scratchDir)
			w.kubeletCalls(node1, "SetUp", scratchDir)
		}, []string{"file file is gone from " + scratchDir + " of node node-1"}},
		{"I41", "is violated by a file that vanishes with its pod", func(w *hand) {
			w.podWith(scratch)
			w.file(scratchDir+"/file", "1")
			w.kubeletCalls(node1, "SetUp", scratchDir)
			w.remove(scratchDir)
			w.endPod("web", false)
		}, []string{"file file is gone from " + scratchDir + " of node node-1"}},
		{"I41", "is violated by a file that vanishes from a directory of the node", func(w *hand) {
			w.podWith(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}})
			w.file("/srv/deep/file", "1")
			w.endPod("web", true)
			w.event("crash", "kubelet(node-1)")
			w.remove("/srv/deep")
			w.kubeletCalls(node1, "TearDown", "/srv")
		}, []string{"file deep/file is gone from /srv of node node-1"}},
		{"I41", "allows a container to remove a file", func(w *hand) {
			w.podWith(scratch)
			w.file(scratchDir+"/file", "1")
			w.event("crash", "kubelet(node-1)")
			w.remove(scratchDir + "/file")
			w.access("remove", "/v/file")
			w.event("crash", "kubelet(node-1)")
		}, nil},
		{"I41", "is violated by a file that is gone after a container has read it", func(w *hand) {
			w.podWith(scratch)
			w.file(scratchDir+"/file", "1")
			w.event("crash", "kubelet(node-1)")
			w.remove(scratchDir + "/file")
			w.access("read", "/v/file")
			w.event("crash", "kubelet(node-1)")
		}, []string{"file file is gone from " + scratchDir + " of node node-1"}},
		{"I41", "is violated by memory that a crash of the kubelet loses", func(w *hand) {
			w.podWith(scratch)
			w.devices.mounts[node1] = []nodefs.Mount{tmpfs}
			w.file(scratchDir+"/file", "1")
			w.event("crash", "kubelet(node-1)")
			w.remove(scratchDir)
			w.event("crash", "kubelet(node-1)")
		}, []string{"file file is gone from " + scratchDir + " of node node-1"}},
		{"I41", "allows memory to be lost at a reboot", func(w *hand) {
			w.podWith(scratch)
			w.devices.mounts[node1] = []nodefs.Mount{tmpfs}
			w.file(scratchDir+"/file", "1")
			w.event("reboot", "node-1")
			w.remove(scratchDir)
			w.kubeletCalls(node1, "SetUp", scratchDir)
		}, nil},
		{"I41", "allows an emptyDir to end with its pod", func(w *hand) {
			w.podWith(scratch)
			w.file(scratchDir+"/file", "1")
			w.endPod("web", false)
			w.remove(scratchDir)
			w.kubeletCalls(node1, "TearDown", scratchDir)
		}, nil},
		{"I41", "ignores the directory of a volume that may be deleted", func(w *hand) {
			w.change("pv", func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			})
			w.pod("web", node1, corev1.PodRunning)
			w.file("/tmp/file", "1")
			w.event("crash", "kubelet(node-1)")
			w.remove("/tmp/file")
			w.event("crash", "kubelet(node-1)")
		}, nil},
		{"I42", "is violated by the files of no version", func(w *hand) {
			updated(w)
			w.content(configDir, map[string]string{"a": "2", "b": "1"})
			w.kubeletCalls(node1, "WriteFiles", configDir)
		}, []string{"pod default/web runs, and its volume v has the files of no version of configmaps/default/config: [a b]"}},
		{"I42", "is violated by files that are gone", func(w *hand) {
			updated(w)
			w.remove(configDir)
			w.kubeletCalls(node1, "TearDown", configDir)
		}, []string{"pod default/web runs, and its volume v has the files of no version of configmaps/default/config: []"}},
		{"I42", "is violated by a pod that starts without its files", func(w *hand) {
			w.setConfig(first)
			w.content(configDir, first)
			w.podWith(configMap)
			w.event("reboot", "node-1")
			w.remove(configDir)
			_, err := w.client.CoreV1().Pods("default").Patch(context.Background(), "web", types.MergePatchType,
				[]byte(`{"status":{"containerStatuses":[{"name":"main","image":"pause","imageID":"","ready":true,"restartCount":1,`+
					`"state":{"running":{}}}]}}`), metav1.PatchOptions{}, "status")
			testcheck.NoError(w.t, err)
		}, []string{"pod default/web runs, and its volume v has the files of no version of configmaps/default/config: []"}},
		{"I42", "is violated by half of a source", func(w *hand) {
			w.setConfig(first)
			w.content(allDir, map[string]string{"a": "1", "b": "1", "token": "x"})
			w.podWith(allOf)
			w.content(allDir, map[string]string{"a": "1", "token": "x"})
			w.kubeletCalls(node1, "WriteFiles", allDir)
		}, []string{"pod default/web runs, and its volume v has the files of no version of configmaps/default/config: [a token]"}},
		{"I42", "allows an old version, a new one, and a volume of several sources", func(w *hand) {
			updated(w)
			w.kubeletCalls(node1, "WriteFiles", configDir)
			w.content(configDir, second)
			w.kubeletCalls(node1, "ReplaceFiles", configDir)
		}, nil},
		{"I42", "allows a rebooted node to have nothing until the containers start", func(w *hand) {
			updated(w)
			w.event("reboot", "node-1")
			w.remove(configDir)
			w.kubeletCalls(node1, "SetUp", configDir)
		}, nil},
	})
	playHand(t, true, []handStory{
		{"I42", "is violated at rest by an old version", func(w *hand) {
			updated(w)
		}, []string{"pod default/web runs, and its volume v does not have the files of configmaps/default/config: [a b]"}},
		{"I42", "allows the current version at rest", func(w *hand) {
			updated(w)
			w.content(configDir, second)
		}, nil},
		{"I27", "is violated at rest by a pod that runs without its own volume", func(w *hand) {
			w.podWith(scratch)
		}, []string{"pod default/web runs on node node-1, and its volume v is not mounted"}},
		{"I27", "is violated by a volume in memory that is not mounted", func(w *hand) {
			w.podWith(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}})
			testcheck.NoError(w.t, w.devices.disk.MkdirAll("/pods/web/volumes/kubernetes.io~secret/v"))
		}, []string{"pod default/web runs on node node-1, and its volume v is not mounted"}},
	})
}
