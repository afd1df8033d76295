package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

// newStatefulSet returns the set "web" whose pods have a volume "data".
func newStatefulSet(replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	pod := cluster.NewPod("", "data")
	pod.Spec.Volumes = nil
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*cluster.NewClaim("data", "64Mi")},
		},
	}
}

// setWorld is a cluster with the set "web".
type setWorld struct {
	*cluster.Cluster

	t testing.TB
}

// edit changes the set.
func (w setWorld) edit(change func(*appsv1.StatefulSet)) {
	w.t.Helper()
	sets := w.Client().AppsV1().StatefulSets("default")
	for {
		set := testcheck.Must(sets.Get(context.Background(), "web", metav1.GetOptions{}))
		change(set)
		_, err := sets.Update(context.Background(), set, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "the object has been modified") {
			w.t.Fatal(err)
		}
	}
}

// settle waits until so many pods are ready, and the update of the set is complete.
func (w setWorld) settle(replicas int32) {
	w.t.Helper()
	var status appsv1.StatefulSetStatus
	err := w.Wait(context.Background(), fmt.Sprintf("%d ready pods", replicas), func() bool {
		obj, ok := w.Server().Get("statefulsets", "default", "web")
		if !ok {
			return false
		}
		set := obj.(*appsv1.StatefulSet)
		status = set.Status
		return status.ObservedGeneration == set.Generation && status.Replicas == replicas &&
			status.AvailableReplicas == replicas && status.CurrentRevision == status.UpdateRevision
	})
	if err != nil {
		w.t.Fatalf("%v: status %+v", err, status)
	}
}

// TestStatefulSet: the pods of a set find the data of their ordinals after they were removed and
// updated.
func TestStatefulSet(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Devices: cluster.Array}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			world.cfg.Nodes = 2
			w := setWorld{start(t, world.cfg), t}
			must(t)(w.Client().AppsV1().StatefulSets("default").Create(ctx, newStatefulSet(3), metav1.CreateOptions{}))
			w.settle(3)
			for i := range 3 {
				pod := fmt.Sprintf("web-%d", i)
				testcheck.NoError(t, w.WriteFile("default", pod, "data", "name", []byte(pod)))
			}
			hasData := func(when string, pods ...string) {
				t.Helper()
				for _, pod := range pods {
					got, err := w.ReadFile("default", pod, "data", "name")
					if err != nil || string(got) != pod {
						t.Errorf("%s: pod %s has data %q, %v", when, pod, got, err)
					}
				}
			}
			w.edit(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
			w.settle(1)
			if got := len(w.Server().List("persistentvolumeclaims")); got != 3 {
				t.Errorf("%d claims after scaling down, want 3", got)
			}
			hasData("scaled down", "web-0")
			w.edit(func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](3) })
			w.settle(3)
			hasData("scaled up", "web-0", "web-1", "web-2")
			w.edit(func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "other" })
			w.settle(3)
			hasData("updated", "web-0", "web-1", "web-2")
			for _, obj := range w.Server().List("pods") {
				if image := obj.(*corev1.Pod).Spec.Containers[0].Image; image != "other" {
					t.Errorf("pod %s has image %s", obj.GetName(), image)
				}
			}
			testcheck.NoError(t, w.Client().AppsV1().StatefulSets("default").Delete(ctx, "web", metav1.DeleteOptions{
				PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
			}))
			testcheck.NoError(t, w.WaitForGone(ctx, "statefulsets", "default", "web"), w.WaitForRest(ctx))
			if pods := w.Server().List("pods"); len(pods) > 0 {
				t.Errorf("%d pods after the deletion", len(pods))
			}
			if got := len(w.Server().List("persistentvolumeclaims")); got != 3 {
				t.Errorf("%d claims after the deletion, want 3", got)
			}
		})
	}
}

// TestStatefulSetAvailability: with minReadySeconds, the next pod is created when the one before has
// been ready for so long.
func TestStatefulSetAvailability(t *testing.T) {
	w := setWorld{start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}), t}
	set := newStatefulSet(2)
	set.Spec.MinReadySeconds = 30
	must(t)(w.Client().AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}))
	w.settle(2)
	var created []time.Time
	for _, obj := range w.Server().List("pods") {
		created = append(created, obj.GetCreationTimestamp().Time)
	}
	if d := created[1].Sub(created[0]); d < 30*time.Second {
		t.Errorf("the second pod was created %v after the first", d)
	}
}

// TestRolloutHangs: a pod of the new template that is not ready keeps the others from being updated,
// until it becomes ready.
func TestRolloutHangs(t *testing.T) {
	ctx := t.Context()
	w := setWorld{start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}), t}
	must(t)(w.Client().AppsV1().StatefulSets("default").Create(ctx, newStatefulSet(3), metav1.CreateOptions{}))
	w.settle(3)
	w.edit(func(set *appsv1.StatefulSet) {
		set.Spec.Template.Annotations = map[string]string{kubelet.ReadyAnnotation: "false"}
	})
	testcheck.NoError(t, w.Run(ctx))
	set := testcheck.Must(w.Client().AppsV1().StatefulSets("default").Get(ctx, "web", metav1.GetOptions{}))
	if s := set.Status; s.UpdatedReplicas != 1 || s.ReadyReplicas != 2 || s.CurrentRevision == s.UpdateRevision {
		t.Errorf("status %+v, want one pod updated, which is not ready", s)
	}
	for i := 2; i >= 0; i-- {
		pod := fmt.Sprintf("web-%d", i)
		testcheck.NoError(t, w.Run(ctx), w.WaitFor(ctx, "pods", "default", pod, "condition=Ready=False"))
		must(t)(w.Client().CoreV1().Pods("default").Patch(ctx, pod, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+kubelet.ReadyAnnotation+`":null}}}`), metav1.PatchOptions{}))
	}
	w.settle(3)
}

// TestStatefulSetOfContainersThatExit: its pods are restarted in place, under both hosts.
func TestStatefulSetOfContainersThatExit(t *testing.T) {
	for _, cfg := range []cluster.Config{{Nodes: 1, Stepped: &sim.SteppedConfig{}}, {Nodes: 1, Devices: cluster.Array}} {
		w := setWorld{start(t, cfg), t}
		set := newStatefulSet(2)
		set.Spec.Template.Annotations = map[string]string{kubelet.ExitCodesAnnotation: "1"}
		must(t)(w.Client().AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}))
		testcheck.NoError(t, w.Wait(t.Context(), "restarted containers", func() bool {
			restarts := int32(0)
			for _, obj := range w.Server().List("pods") {
				for _, s := range obj.(*corev1.Pod).Status.ContainerStatuses {
					restarts += s.RestartCount
				}
			}
			return restarts == 2
		}))
		w.settle(2)
	}
}

// TestStatefulSetOnLostNode: a pod on a node that is partitioned is not replaced, until its deletion
// is forced.
func TestStatefulSetOnLostNode(t *testing.T) {
	ctx := t.Context()
	w := setWorld{start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}), t}
	must(t)(w.Client().AppsV1().StatefulSets("default").Create(ctx, newStatefulSet(2), metav1.CreateOptions{}))
	w.settle(2)
	uid := func() string {
		obj, ok := w.Server().Get("pods", "default", "web-1")
		if !ok {
			return ""
		}
		return string(obj.GetUID())
	}
	before := uid()
	testcheck.NoError(t, w.PartitionNode("node-1"))
	pods := w.Client().CoreV1().Pods("default")
	testcheck.NoError(t, pods.Delete(ctx, "web-1", metav1.DeleteOptions{}), w.Run(ctx))
	if got := uid(); got != before {
		t.Errorf("pod %q replaced %q, which may still run", got, before)
	}
	testcheck.NoError(t, pods.Delete(ctx, "web-1", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}),
		w.Run(ctx))
	if got := uid(); got == before || got == "" {
		t.Errorf("pod %q after the forced deletion of %q", got, before)
	}
}
