package conformance_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
)

// TestLocalStorageOnARealServer runs "volsim controllers --local-storage" with its scheduler against a real kube-apiserver. Of two
// simulated nodes the first is too small for the claim.
func TestLocalStorageOnARealServer(t *testing.T) {
	cfg := realServer(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, ctx := realWorld{t, client}, t.Context()
	running := startControllers(t, buildCommand(t), kubeconfigFor(t, cfg), "--only", "pvcontroller,pvprotection,pvcprotection,scheduler",
		"--local-storage", "--disk", "node-1:/dev/sdb=16Mi", "--disk", "node-2:/dev/sdb=64Mi")
	running.until("acting")
	for _, name := range []string{"node-1", "node-2"} {
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "localstorage.volsim.dev",
		Parameters:        map[string]string{"nodes": `[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]`},
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	w.must(err)
	claim := cluster.NewClaim("data", "30Mi")
	claim.Spec.StorageClassName = ptr.To("fast")
	_, err = client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	w.must(err)
	pod := cluster.NewPod("web", "data")
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // a new node is tainted, and no kubelet removes it
	_, err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	w.must(err)
	volume := ""
	w.untilClaim("data", "bound", func(c *corev1.PersistentVolumeClaim) bool {
		volume = c.Spec.VolumeName
		return isBound(c) && c.Annotations["volume.kubernetes.io/selected-node"] == "node-2" && c.Status.Capacity.Storage().String() == "32Mi"
	})
	w.untilVolume(volume, "local", func(v *corev1.PersistentVolume) bool {
		return v.Spec.Local != nil && v.Spec.Local.Path == "/dev/fast/"+volume
	})
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	w.must(client.CoreV1().Pods("default").Delete(ctx, "web", now)) // there is no kubelet to end it
	w.must(client.CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{}))
	w.untilVolume(volume, "gone", nil)
	running.stop()
}
