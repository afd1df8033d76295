package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// unserved are controllers of kube-controller-manager whose resources the server does not have.
var unserved = []string{
	"certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
	"certificatesigningrequest-signing-controller", "cronjob-controller", "endpointslice-controller",
	"endpointslice-mirroring-controller", "horizontal-pod-autoscaler-controller", "job-controller",
	"legacy-serviceaccount-token-cleaner-controller", "resourceclaim-controller", "service-cidr-controller",
	"ttl-after-finished-controller", "validatingadmissionpolicy-status-controller",
}

// TestControlPlane runs the real kube-controller-manager and kube-scheduler against a server
// without controllers. They bind, schedule, attach, protect claims, create the objects of a
// StatefulSet, collect garbage, empty namespaces and taint nodes. It is skipped unless
// KUBE_CONTROLLER_MANAGER and KUBE_SCHEDULER name the programs.
func TestControlPlane(t *testing.T) {
	w := newControlPlane(t)
	t.Run("claims", w.claims)
	t.Run("statefulset", w.statefulSet)
	t.Run("taints", w.taints)
	w.refused(t)
}

// A controlPlane is a served world with the real controllers.
type controlPlane struct{ *sidecarWorld }

func newControlPlane(t *testing.T) controlPlane {
	t.Helper()
	manager, scheduler := os.Getenv("KUBE_CONTROLLER_MANAGER"), os.Getenv("KUBE_SCHEDULER")
	if manager == "" || scheduler == "" {
		t.Skip("KUBE_CONTROLLER_MANAGER and KUBE_SCHEDULER do not name the real programs")
	}
	dir := t.TempDir()
	s := serveBare(t)
	client, err := kubernetes.NewForConfig(s.listener.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := controlPlane{&sidecarWorld{t: t, served: s, client: client, log: s.log}}
	w.createObjects()
	kubeconfig, ca, key := filepath.Join(dir, "config"), filepath.Join(dir, "ca.crt"), filepath.Join(dir, "sa.key")
	if err := clientcmd.WriteToFile(*s.listener.Kubeconfig("volsim"), kubeconfig); err != nil {
		t.Fatal(err)
	}
	writeFile(t, ca, s.listener.Config().CAData)
	writeFile(t, key, serviceAccountKey(t))
	usual := []string{"--kubeconfig=" + kubeconfig, "--secure-port=0", "--leader-elect", "--kube-api-qps=1000", "--kube-api-burst=1000"}
	run(t, dir, scheduler, usual...)
	run(t, dir, manager, append(usual, "--root-ca-file="+ca, "--service-account-private-key-file="+key,
		"--flex-volume-plugin-dir="+filepath.Join(dir, "flex"), "--controllers=*,-"+strings.Join(unserved, ",-"))...)
	return w
}

// serveBare serves an API server whose only clients connect over HTTPS.
func serveBare(t *testing.T) *served {
	t.Helper()
	host := sim.NewLive(sim.LiveConfig{})
	server := fake.NewServer(fake.Config{Now: host.Now, SkipBootstrap: true})
	crd.Serve(server)
	s := &served{log: &answerLog{}}
	server.OnCommit(func(fake.Commit) { s.notify() })
	var err error
	s.listener, err = apiserver.Listen(apiserver.ListenConfig{
		Handler: s.log.wrap(apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return host.ExternalCaller() }})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.listener.Close(); err != nil {
			t.Error(err)
		}
		host.Close()
	})
	return s
}

// createObjects creates two nodes with the driver, and the classes "static" and "late" with volumes
// of each.
func (w controlPlane) createObjects() {
	ctx, all := w.t.Context(), metav1.CreateOptions{}
	w.create(w.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}, all))
	room := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
	for _, name := range []string{"node-1", "node-2"} {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
			Status: corev1.NodeStatus{
				Capacity: room, Allocatable: room,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
			},
		}
		w.create(w.client.CoreV1().Nodes().Create(ctx, node, all))
		w.create(w.client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name}}},
		}, all))
	}
	for class, mode := range map[string]storagev1.VolumeBindingMode{
		"static": storagev1.VolumeBindingImmediate, "late": storagev1.VolumeBindingWaitForFirstConsumer,
	} {
		w.create(w.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode,
		}, all))
		for i := range 3 {
			name := fmt.Sprintf("%s-%d", class, i)
			w.create(w.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeSpec{
					Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, StorageClassName: class,
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: name}},
				},
			}, all))
		}
	}
}

func classClaim(name, class string) *corev1.PersistentVolumeClaim {
	c := cluster.NewClaim(name, "1Gi")
	c.Spec.StorageClassName = ptr.To(class)
	return c
}

// claims tests that one claim is bound at once, and that another one is bound when its pod is
// scheduled, then attached, and protected until the pod is deleted.
func (w controlPlane) claims(t *testing.T) {
	w.t = t
	ctx, all := t.Context(), metav1.CreateOptions{}
	claims, pods := w.client.CoreV1().PersistentVolumeClaims("default"), w.client.CoreV1().Pods("default")
	w.create(claims.Create(ctx, classClaim("static", "static"), all))
	w.bound("static")
	w.create(claims.Create(ctx, classClaim("late", "late"), all))
	w.create(pods.Create(ctx, cluster.NewPod("web", "late"), all))
	w.bound("late")
	w.wait("the pod's node", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
	attachments := w.client.StorageV1().VolumeAttachments()
	var attachment string
	w.wait("the attachment", func(ctx context.Context) (bool, error) {
		made, err := attachments.List(ctx, metav1.ListOptions{})
		if err != nil || len(made.Items) != 1 {
			return false, err
		}
		attachment = made.Items[0].Name
		return true, nil
	})
	w.create(attachments.Patch(ctx, attachment, types.MergePatchType, []byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status"))
	w.wait("the node's volumes", func(ctx context.Context) (bool, error) {
		nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(nodes.Items[0].Status.VolumesAttached)+len(nodes.Items[1].Status.VolumesAttached) == 1, err
	})
	if err := claims.Delete(ctx, "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err := claims.Get(ctx, "late", metav1.GetOptions{}); err != nil || c.DeletionTimestamp == nil {
		t.Fatalf("claim in use is not protected: %v", err)
	}
	w.kill("default")
	w.wait("the claim's end", func(ctx context.Context) (bool, error) {
		_, err := claims.Get(ctx, "late", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	w.wait("the attachment's end", func(ctx context.Context) (bool, error) {
		_, err := attachments.Get(ctx, attachment, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// kill removes the pods of a namespace, like a kubelet at the end of their termination.
func (w controlPlane) kill(namespace string) {
	w.t.Helper()
	if err := w.client.CoreV1().Pods(namespace).DeleteCollection(w.t.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}, metav1.ListOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// statefulSet tests a StatefulSet with pods and claims in a separate namespace. Its dependents are
// deleted after it, then the namespace.
func (w controlPlane) statefulSet(t *testing.T) {
	w.t = t
	ctx, all, core := t.Context(), metav1.CreateOptions{}, w.client.CoreV1()
	w.create(core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, all))
	w.wait("the initial objects of a namespace", func(ctx context.Context) (bool, error) {
		_, err := core.ServiceAccounts("work").Get(ctx, "default", metav1.GetOptions{})
		_, err2 := core.ConfigMaps("work").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && err2 == nil, errors.Join(err, err2)
	})
	labels := map[string]string{"app": "db"}
	set, err := w.client.AppsV1().StatefulSets("work").Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(2)), PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*classClaim("data", "late")},
		},
	}, all)
	w.create(set, err)
	w.wait("two scheduled pods with bound claims", func(ctx context.Context) (bool, error) {
		pods, err := core.Pods("work").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
		claims, err2 := core.PersistentVolumeClaims("work").List(ctx, metav1.ListOptions{})
		return err == nil && err2 == nil && len(pods.Items) == 2 && len(claims.Items) == 2 &&
			claims.Items[0].Status.Phase == corev1.ClaimBound && claims.Items[1].Status.Phase == corev1.ClaimBound, errors.Join(err, err2)
	})
	w.create(core.ConfigMaps("work").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "owned", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
	}}, all))
	if err := w.client.AppsV1().StatefulSets("work").Delete(ctx, "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wait("the deletion of owned objects", func(ctx context.Context) (bool, error) {
		_, err := core.ConfigMaps("work").Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	w.kill("work")
	if err := core.Namespaces().Delete(ctx, "work", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wait("the namespace's end", func(ctx context.Context) (bool, error) {
		_, err := core.Namespaces().Get(ctx, "work", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// taints tests that a node with a silent kubelet is tainted.
func (w controlPlane) taints(t *testing.T) {
	w.t = t
	nodes := w.client.CoreV1().Nodes()
	if node, err := nodes.Get(t.Context(), "node-2", metav1.GetOptions{}); err != nil || len(node.Spec.Taints) > 0 {
		t.Fatalf("already tainted: %v, %v", node.Spec.Taints, err)
	}
	w.create(nodes.Patch(t.Context(), "node-2", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`), metav1.PatchOptions{}, "status"))
	w.wait("the taint", func(ctx context.Context) (bool, error) {
		node, err := nodes.Get(ctx, "node-2", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable {
				return true, nil
			}
		}
		return false, nil
	})
}

// refused checks that the server refused only requests that a real one refuses too: conflicts,
// missing objects, and creations in a terminating namespace.
func (w controlPlane) refused(t *testing.T) {
	for _, a := range w.log.refused() {
		switch {
		case a.code == 409:
		case a.code == 404 && a.method != "POST" && !strings.Contains(a.body, "page not found") &&
			!strings.Contains(a.body, "could not find the requested resource"):
		case a.code == 404 && strings.HasSuffix(a.path, "/events"): // the object's namespace is deleted
		case a.code == 403 && strings.Contains(a.body, "because it is being terminated"):
		default:
			t.Errorf("refused: %s %s: %d: %s", a.method, a.path, a.code, a.body)
		}
	}
}
