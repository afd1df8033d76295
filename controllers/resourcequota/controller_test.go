package resourcequota_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/resourcequota"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct{ *testworld.World }

func newWorld(t testing.TB) *world {
	w := &world{testworld.New(t, sim.SteppedConfig{StepsMax: 2000})}
	process := w.Host.Process("resourcequota")
	own := w.Server.Client(process)
	resourcequota.New(resourcequota.Config{
		Process: process, Client: own, Informers: w.Server.Informers(process),
		Metadata: own.Metadata(), Watcher: w.Server.MetadataWatcher(process), Discover: own.ServerPreferredNamespacedResources,
	})
	return w
}

func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		if name, amount, ok := strings.Cut(part, "="); ok {
			list[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return list
}

func (w *world) quota(name, hard string) {
	w.Helper()
	_, err := w.User.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(hard)},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

// expect runs the world, and compares what a quota says is used with want.
func (w *world) expect(name, want string) {
	w.Helper()
	w.NoError(w.Host.Run())
	obj, ok := w.Server.Get("resourcequotas", "default", name)
	if !ok {
		w.Fatalf("no quota %s", name)
	}
	status := obj.(*corev1.ResourceQuota).Status
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(status.Used)) {
		amount := status.Used[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	if got := strings.Join(parts, ","); got != want {
		w.Errorf("used %s, want %s", got, want)
	}
}

func newClaim(name, size string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return c
}

func (w *world) create(claim *corev1.PersistentVolumeClaim) error {
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// removed deletes a claim, and the finalizer that protects it.
func (w *world) removed(name string) {
	w.Helper()
	claims := w.User.CoreV1().PersistentVolumeClaims("default")
	w.NoError(claims.Delete(ctx, name, metav1.DeleteOptions{}))
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	w.NoError(err)
	claim.Finalizers = nil
	_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
	w.NoError(err)
}

// What exists before the quota is counted; what goes is no longer.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	w.NoError(w.create(newClaim("a", "1Gi")))
	w.NoError(w.create(newClaim("b", "2Gi")))
	w.quota("q", "persistentvolumeclaims=3,requests.storage=4Gi,pods=5")
	w.expect("q", "persistentvolumeclaims=2,pods=0,requests.storage=3Gi")
	w.NoError(w.create(newClaim("c", "1Gi")))
	w.expect("q", "persistentvolumeclaims=3,pods=0,requests.storage=4Gi")
	w.removed("b")
	w.expect("q", "persistentvolumeclaims=2,pods=0,requests.storage=2Gi")
	w.NoError(w.create(newClaim("d", "2Gi")))
	if err := w.create(newClaim("e", "1Gi")); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want that the quota is exceeded", err)
	}
	w.expect("q", "persistentvolumeclaims=3,pods=0,requests.storage=4Gi")
}

// A changed spec is counted for, and enforced, at once. What is used may then exceed it.
func TestSpecChanges(t *testing.T) {
	w := newWorld(t)
	w.quota("q", "persistentvolumeclaims=3")
	w.expect("q", "persistentvolumeclaims=0")
	w.NoError(w.create(newClaim("a", "1Gi")))
	w.NoError(w.create(newClaim("b", "1Gi")))
	quotas := w.User.CoreV1().ResourceQuotas("default")
	q, err := quotas.Get(ctx, "q", metav1.GetOptions{})
	w.NoError(err)
	q.Spec.Hard = amounts("persistentvolumeclaims=1,secrets=2")
	_, err = quotas.Update(ctx, q, metav1.UpdateOptions{})
	w.NoError(err)
	w.expect("q", "persistentvolumeclaims=2,secrets=0")
	if err := w.create(newClaim("c", "1Gi")); err == nil || !strings.Contains(err.Error(),
		"used: persistentvolumeclaims=2, limited: persistentvolumeclaims=1") {
		t.Errorf("got %v, want that the quota is exceeded", err)
	}
	w.NoError(quotas.Delete(ctx, "q", metav1.DeleteOptions{}))
	w.NoError(w.Host.Run())
	w.NoError(w.create(newClaim("c", "1Gi")))
}

// A pod that has ended uses no compute resources, and still counts.
func TestEndedPods(t *testing.T) {
	w := newWorld(t)
	w.quota("q", "pods=2,count/pods=5,requests.cpu=2")
	w.NoError(w.Host.Run())
	pods := w.User.CoreV1().Pods("default")
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: amounts("cpu=1")},
		}}},
	}, metav1.CreateOptions{})
	w.NoError(err)
	w.expect("q", "count/pods=1,pods=1,requests.cpu=1")
	pod.Status.Phase = corev1.PodSucceeded
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	w.NoError(err)
	w.expect("q", "count/pods=1,pods=0,requests.cpu=0")
}

// Objects of a kind without a cache are listed when the quota is new, and after deletions.
func TestCountsOfOtherKinds(t *testing.T) {
	w := newWorld(t)
	deployments := w.User.AppsV1().Deployments("default")
	create := func(name string) error {
		labels := map[string]string{"app": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}}
		_, err := deployments.Create(ctx, d, metav1.CreateOptions{})
		return err
	}
	w.NoError(create("a"))
	w.quota("q", "count/deployments.apps=2,count/nosuchthings.example.com=1")
	w.expect("q", "count/deployments.apps=1")
	w.NoError(create("b"))
	w.expect("q", "count/deployments.apps=2")
	w.NoError(deployments.Delete(ctx, "a", metav1.DeleteOptions{}))
	w.expect("q", "count/deployments.apps=1")
	w.NoError(create("c"))
	if err := create("d"); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want that the quota is exceeded", err)
	}
}

// A create that failed after admission is found by the resync.
func TestResync(t *testing.T) {
	w := newWorld(t)
	w.quota("q", "persistentvolumeclaims=5")
	w.NoError(w.Host.Run())
	w.NoError(w.create(newClaim("a", "1Gi")))
	if err := w.create(newClaim("a", "1Gi")); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("got %v, want that it exists", err)
	}
	w.expect("q", "persistentvolumeclaims=1")
}

// The cache of quotas may be newer than that of claims. The controller then writes that less is used
// than is, and another claim exceeds the quota. It is counted at the next resync.
func TestStaleCacheExceedsTheQuota(t *testing.T) {
	w := newWorld(t)
	w.NoError(w.create(newClaim("a", "1Gi")))
	w.quota("q", "persistentvolumeclaims=2")
	w.expect("q", "persistentvolumeclaims=1")
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	w.NoError(err)
	w.NoError(w.create(newClaim("b", "1Gi")))
	if err := w.create(newClaim("c", "1Gi")); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want that the quota is exceeded", err)
	}
	w.NoError(w.Host.StepTask("resourcequota/cache persistentvolumeclaims")) // the patch, not the creation of b
	w.NoError(w.Host.StepTask("resourcequota/cache resourcequotas"))         // which was charged
	w.NoError(w.Host.StepTask("resourcequota/resourcequota"))
	w.NoError(w.Host.StepTask("resourcequota/resourcequota"))
	w.NoError(w.create(newClaim("c", "1Gi")))
	w.expect("q", "persistentvolumeclaims=3")
}

// Without quotas the controller has nothing to do.
func TestIdle(t *testing.T) {
	w := newWorld(t)
	w.NoError(w.create(newClaim("a", "1Gi")))
	w.NoError(w.Host.Run())
	w.removed("a")
	w.NoError(w.Host.Run())
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindWork {
			t.Errorf("got %v", r)
		}
	}
}

// Devices of ResourceClaims are counted by class when the quota is new, and after deletions.
func TestDevices(t *testing.T) {
	w := newWorld(t)
	claims := w.User.ResourceV1().ResourceClaims("default")
	create := func(name string, count int64) error {
		_, err := claims.Create(ctx, &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
				{Name: "some", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Count: count}},
				{Name: "any", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "a", DeviceClassName: "gpu"}, {Name: "b", DeviceClassName: "tpu"}}},
			}}},
		}, metav1.CreateOptions{})
		return err
	}
	const gpus, tpus = "gpu.deviceclass.resource.k8s.io/devices", "tpu.deviceclass.resource.k8s.io/devices"
	w.NoError(create("a", 2))
	w.quota("q", "count/resourceclaims.resource.k8s.io=9,"+gpus+"=7,"+tpus+"=9")
	w.expect("q", "count/resourceclaims.resource.k8s.io=1,"+gpus+"=3,"+tpus+"=1")
	w.NoError(create("b", 1))
	w.expect("q", "count/resourceclaims.resource.k8s.io=2,"+gpus+"=5,"+tpus+"=2")
	want := "exceeded quota: q, requested: " + gpus + "=3, used: " + gpus + "=5, limited: " + gpus + "=7"
	if err := create("c", 2); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	w.NoError(claims.Delete(ctx, "a", metav1.DeleteOptions{}))
	w.expect("q", "count/resourceclaims.resource.k8s.io=1,"+gpus+"=2,"+tpus+"=1")
}
