package rowtest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// CheckIdle checks that a plugin with default arguments does not allocate for a pod that has nothing to do
// with it.
func CheckIdle(t *testing.T, construct Constructor) {
	t.Helper()
	plugin, err := construct(t, &Row{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}},
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := framework.NewSnapshot([]*corev1.Node{node(t, "a"), node(t, "b")}, nil)
	cycle := framework.NewCycle(info, snapshot)
	scores := make([]int64, 2)
	if n := testing.AllocsPerRun(100, func() { runAll(plugin, cycle, scores) }); n > 0 {
		t.Errorf("%.0f allocations, want 0", n)
	}
}

// runAll calls a plugin as the scheduler does.
func runAll(plugin framework.Plugin, cycle *framework.Cycle, scores []int64) {
	var status *framework.Status
	if f, ok := plugin.(framework.PreFilterer); ok {
		_, status = f.PreFilter(cycle)
	}
	if f, ok := plugin.(framework.Filterer); ok && status == nil {
		for _, node := range cycle.Snapshot.Nodes() {
			f.Filter(cycle, node)
		}
	}
	if f, ok := plugin.(framework.Scorer); ok && f.PreScore(cycle, cycle.Snapshot.Nodes()) == nil {
		for i, node := range cycle.Snapshot.Nodes() {
			scores[i], _ = f.Score(cycle, node)
		}
		f.Normalize(cycle, scores)
	}
}
