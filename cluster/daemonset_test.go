package cluster_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestDaemonSet: each node runs a pod of a DaemonSet, also one that is unschedulable. The pods are
// updated with and without a surge.
func TestDaemonSet(t *testing.T) {
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
			w := start(t, world.cfg)
			sets, nodes := w.Client().AppsV1().DaemonSets("default"), w.Client().CoreV1().Nodes()
			labels := map[string]string{"app": "agent"}
			template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: cluster.NewPod("").Spec}
			must(t)(sets.Create(ctx, &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: "agent"},
				Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
			}, metav1.CreateOptions{}))
			settle := func(count int32) {
				t.Helper()
				testcheck.NoError(t, w.Wait(ctx, "the rollout", func() bool {
					obj, _ := w.Server().Get("daemonsets", "default", "agent")
					set, _ := obj.(*appsv1.DaemonSet)
					return set != nil && set.Status.ObservedGeneration == set.Generation && set.Status.DesiredNumberScheduled == count &&
						set.Status.UpdatedNumberScheduled == count && set.Status.NumberAvailable == count && len(w.Server().List("pods")) == int(count)
				}))
			}
			patch := func(text string) {
				t.Helper()
				must(t)(sets.Patch(ctx, "agent", types.MergePatchType, []byte(text), metav1.PatchOptions{}))
			}
			settle(2)
			var on []string
			for _, obj := range w.Server().List("pods") {
				on = append(on, obj.(*corev1.Pod).Spec.NodeName)
			}
			if slices.Sort(on); strings.Join(on, " ") != "node-1 node-2" {
				t.Errorf("pods on %v", on)
			}
			must(t)(nodes.Patch(ctx, "node-1", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}))
			patch(`{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)
			settle(2)
			patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}}`)
			patch(`{"spec":{"template":{"metadata":{"labels":{"version":"3"}}}}}`)
			settle(2)
			must(t)(nodes.Patch(ctx, "node-2", types.MergePatchType,
				[]byte(`{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}`), metav1.PatchOptions{}))
			settle(1)
			testcheck.NoError(t, sets.Delete(ctx, "agent", metav1.DeleteOptions{}))
			testcheck.NoError(t, w.Wait(ctx, "no pods", func() bool { return len(w.Server().List("pods")) == 0 }))
		})
	}
}
