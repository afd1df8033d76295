package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestSleepingComponents checks that a component with nothing to do is a component like others, but
// has no process that could fail before the first object for it.
func TestSleepingComponents(t *testing.T) {
	t.Parallel()
	sets := func(w *cluster.Cluster, replicas int32) (status appsv1.StatefulSetStatus) {
		host := w.Host().(*sim.Stepped)
		client := w.Client().AppsV1().StatefulSets("default")
		testcheck.Must(client.Create(context.Background(), newStatefulSet(replicas), metav1.CreateOptions{}))
		host.Run()
		return testcheck.Must(client.Get(context.Background(), "web", metav1.GetOptions{})).Status
	}
	faults := func(w *cluster.Cluster) []string {
		return slices.DeleteFunc(w.Host().(*sim.Stepped).Events(), func(name string) bool {
			return !strings.Contains(name, " statefulset")
		})
	}
	for _, r := range []struct {
		name    string
		before  func(w *cluster.Cluster) error // before the first set
		faults  bool                           // faults are possible then
		running bool                           // the set gets its pods at once
	}{
		{"first object", func(*cluster.Cluster) error { return nil }, false, true},
		{"crash", func(w *cluster.Cluster) error { return w.Crash("statefulset") }, true, true},
		{"stop", func(w *cluster.Cluster) error { return w.Stop("statefulset") }, true, false},
		{"replica", func(w *cluster.Cluster) error { return w.Replicate("statefulset") }, true, true},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := testcheck.Must(cluster.New(cluster.Config{PreRegistered: true, Stepped: &sim.SteppedConfig{}}))
			defer w.Close()
			if !slices.Contains(w.Components(), "statefulset") || w.Degraded() || len(faults(w)) > 0 {
				t.Fatalf("at first: degraded %v, faults %q", w.Degraded(), faults(w))
			}
			if err := r.before(w); err != nil {
				t.Fatal(err)
			}
			if got := len(faults(w)) > 0; got != r.faults {
				t.Errorf("before the first set: faults %q", faults(w))
			}
			if got := sets(w, 1).ReadyReplicas == 1; got != r.running {
				t.Errorf("the pod of the set is ready: %v", got)
			}
			if len(faults(w)) == 0 {
				t.Error("no faults are possible with a set")
			}
			w.Repair()
			w.Host().(*sim.Stepped).Run()
			status := testcheck.Must(w.Client().AppsV1().StatefulSets("default").Get(context.Background(), "web", metav1.GetOptions{})).Status
			if status.ReadyReplicas != 1 || w.Degraded() {
				t.Errorf("in the end: degraded %v, status %+v", w.Degraded(), status)
			}
		})
	}
}
