package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
)

// localClass returns the class "fast" of local storage with the disks in JSON.
func localClass(nodes string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "localstorage.volsim.dev",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), Parameters: map[string]string{"nodes": nodes},
	}
}

// TestServeLocalStorage runs a pod with a volume of a volume group, and asks the extender as another
// scheduler does.
func TestServeLocalStorage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, head := served(t, path, "--local-storage", "--disk", "node-1:/dev/sdb=64Mi", "--disk", "node-2:/dev/sdb=1Gi")
	client, ctx := clientOf(t, path), t.Context()
	_, err := client.StorageV1().StorageClasses().Create(ctx,
		localClass(`[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]`), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	claim := cluster.NewClaim("data", "40Mi")
	claim.Spec.StorageClassName = ptr.To("fast")
	_, err = client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	pod, err := client.CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	events, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: pod.ResourceVersion})
	testcheck.NoError(t, err)
	defer events.Stop()
	for e := range events.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Modified && ready(p) {
			break
		}
	}

	_, after, found := strings.Cut(head, "\nextender http://127.0.0.1:")
	if !found {
		t.Fatalf("no extender in\n%s", head)
	}
	port, _, _ := strings.Cut(after, "/localstorage\n")
	names := []string{"node-1", "node-2", "node-3"}
	request, err := json.Marshal(extenderv1.ExtenderArgs{Pod: cluster.NewPod("none"), NodeNames: &names})
	testcheck.NoError(t, err)
	answer, err := http.Post("http://127.0.0.1:"+port+"/localstorage/filter", "application/json", bytes.NewReader(request))
	testcheck.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	testcheck.NoError(t, err, answer.Body.Close())
	var result extenderv1.ExtenderFilterResult
	if err := json.Unmarshal(text, &result); err != nil || result.Error != "" {
		t.Fatalf("answer %d %s, %v", answer.StatusCode, text, err)
	}
	if diff := cmp.Diff(&names, result.NodeNames); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

// TestLocalStorageByHand has the records in a world that is stepped manually.
func TestLocalStorageByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, head := served(t, path, "--by-hand", "--local-storage")
	resources, err := clientOf(t, path).Discovery().ServerResourcesForGroupVersion("localstorage.volsim.dev/v1alpha1")
	if err != nil || len(resources.APIResources) == 0 || strings.Contains(head, "extender") {
		t.Errorf("resources %v, %v; head\n%s", resources, err, head)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestServeRejectsInvalidDisks(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--disk node-1", `invalid --disk "node-1": want NODE:PATH=SIZE, such as node-1:/dev/sdb=1Gi`},
		{"--disk node-1:/dev/sdb", "want NODE:PATH=SIZE"},
		{"--disk :/dev/sdb=1Gi", "want NODE:PATH=SIZE"},
		{"--disk node-1:dev/sdb=1Gi", `path "dev/sdb": must be absolute and without dots`},
		{"--disk node-1:/dev/../sdb=1Gi", `path "/dev/../sdb": must be absolute and without dots`},
		{"--disk node-1:/dev/sdb=much", `size "much": want a positive quantity, such as 1Gi`},
		{"--disk node-1:/dev/sdb=-1Gi", `size "-1Gi": want a positive quantity`},
		{"--disk node-3:/dev/sdb=1Gi", `invalid --disk "node-3:/dev/sdb=1Gi": no such node "node-3" (have node-1, node-2)`},
		{"--disk node-1:/dev/sdb=1Gi --disk node-1:/dev/sdb=2Gi", "node-1 has a disk /dev/sdb already"},
		{"--disk node-1:/dev/sdb=1Gi --components pvcontroller", "--disk requires nodes: add kubelet to --components"},
		{"--disk node-1:/dev/sdb=1Gi --by-hand", "--by-hand does not support --disk: perform the operation disk on the page"},
		{"--local-storage --local-storage-extender nowhere", `invalid --local-storage-extender "nowhere": want an address with a port`},
	} {
		status, _, errs := volsim(t.Context(), append([]string{"serve", "--devices", "array"}, strings.Fields(tt.args)...)...)
		if status != 2 || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d, stderr %q, want 2 and one line with %q", tt.args, status, errs, tt.want)
		}
	}
}

// TestControllersWithLocalStorage runs local storage for two simulated nodes against a server that is reachable
// only over HTTPS, and that serves no records before. node-1, which comes first, is too small for the claim.
func TestControllersWithLocalStorage(t *testing.T) {
	t.Parallel()
	b, ctx := newBare(t), t.Context()
	crd.Serve(b.server)
	kubeconfig, _ := b.listen()
	r := control(t, kubeconfig, "--leader-elect=false", "--only", "pvcontroller,scheduler", "--trace",
		"--local-storage", "--disk", "node-1:/dev/sdb=16Mi", "--disk", "node-2:/dev/sdb=64Mi")
	head := r.until("acting")
	if !strings.Contains(head, "components  pvcontroller, scheduler, localstorage\n") || !strings.Contains(head, "extender    http://127.0.0.1:") {
		t.Errorf("output\n%s", head)
	}
	for _, name := range []string{"node-1", "node-2"} {
		_, err := b.user.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}, metav1.CreateOptions{})
		testcheck.NoError(t, err)
	}
	_, err := b.user.StorageV1().StorageClasses().Create(ctx,
		localClass(`[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]`), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	claim := cluster.NewClaim("data", "30Mi")
	claim.Spec.StorageClassName = ptr.To("fast")
	claim, err = b.user.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = b.user.CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	changes, err := b.user.CoreV1().PersistentVolumeClaims("default").Watch(limited, metav1.ListOptions{ResourceVersion: claim.ResourceVersion})
	testcheck.NoError(t, err)
	defer changes.Stop()
	for e := range changes.ResultChan() {
		if c, ok := e.Object.(*corev1.PersistentVolumeClaim); ok && c.Status.Phase == corev1.ClaimBound {
			claim = c
			break
		}
	}
	volume, err := b.user.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	testcheck.NoError(t, err)
	if volume.Spec.Local == nil || volume.Spec.Local.Path != "/dev/fast/"+volume.Name || claim.Status.Capacity.Storage().String() != "32Mi" ||
		claim.Annotations["volume.kubernetes.io/selected-node"] != "node-2" {
		t.Errorf("claim %+v, volume %+v", claim.Status, volume.Spec)
	}
	record, ok := b.server.Get("nodelocalstorages.localstorage.volsim.dev", "", "fast.node-2")
	if !ok {
		t.Error("no record")
	} else if capacity, _, err := unstructured.NestedString(record.(*fake.CustomObject).Content, "status", "capacity"); err != nil || capacity != "60Mi" {
		t.Errorf("capacity %q, %v", capacity, err)
	}
	status, rest, errs := r.stop()
	if status != 0 || errs != "" || t.Failed() || !strings.Contains(rest, "\tnodes=2 accepted=1\n") {
		t.Errorf("status %d, stderr %q, output\n%s", status, errs, rest)
	}
}
