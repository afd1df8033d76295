package healthmonitor_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// addPod stores a pod on a node that uses claims.
func (w *world) addPod(name, node string, claims ...string) {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	w.NoError(w.Server.Add(pod))
}

func (w *world) setReady(node string, ready corev1.ConditionStatus) {
	w.Helper()
	nodes := w.User.CoreV1().Nodes()
	stored := testcheck.Must(nodes.Get(context.Background(), node, metav1.GetOptions{}))
	stored.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	testcheck.Must(nodes.UpdateStatus(context.Background(), stored, metav1.UpdateOptions{}))
}

// nodes returns a world of two nodes, with pods on both.
func nodes(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, nil, listHealth)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.add(name)
	}
	for _, name := range []string{"node-1", "node-2"} {
		w.NoError(w.Server.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		w.setReady(name, corev1.ConditionTrue)
	}
	w.addPod("web-2", "node-1", "claim-a")
	w.addPod("web-1", "node-1", "claim-a", "claim-b")
	w.addPod("db", "node-2", "claim-c")
	w.start()
	w.Run()
	return w
}

const (
	failedA = " Warning NodeFailed claim-a: Pods: [ web-1 web-2 ] consuming PVC: claim-a in namespace: default are now on a failed node: node-1"
	failedB = " Warning NodeFailed claim-b: Pods: [ web-1 ] consuming PVC: claim-b in namespace: default are now on a failed node: node-1"
)

// TestFailedNode reports the claims of a node that has been NotReady for five minutes, and again while
// it stays so.
func TestFailedNode(t *testing.T) {
	t.Parallel()
	w := nodes(t)
	w.wantEvents("while all is well")
	w.setReady("node-1", corev1.ConditionUnknown)
	since := w.Host.Now()
	w.Until("the change to be seen", func() bool { return len(w.Host.Enabled()) == 0 })
	w.wantEvents("at first")
	w.Run()
	testcheck.Equal(t, "time of the report", 5*time.Minute, w.Host.Now().Sub(since))
	w.wantEvents("after five minutes", "x1"+failedA, "x1"+failedB)
	w.pass(5 * time.Minute)
	w.wantEvents("after ten minutes", "x2"+failedA, "x2"+failedB)
	w.setReady("node-1", corev1.ConditionTrue)
	w.Run()
	w.wantEvents("when it has recovered", "x2"+failedA, "x2"+failedB,
		"x1 Warning NodeRecovered claim-a: Node: node-1 recovered", "x1 Warning NodeRecovered claim-b: Node: node-1 recovered")
	w.pass(time.Hour)
	testcheck.Equal(t, "events later", 4, len(w.events()))
}

// TestNodeIsReadyInTime reports nothing of a node that is NotReady for less than five minutes twice.
func TestNodeIsReadyInTime(t *testing.T) {
	t.Parallel()
	w := nodes(t)
	for range 2 {
		w.setReady("node-1", corev1.ConditionFalse)
		w.Until("the change to be seen", func() bool { return len(w.Host.Enabled()) == 0 })
		w.Host.SetTime(w.Host.Now().Add(4 * time.Minute))
		w.setReady("node-1", corev1.ConditionTrue)
		w.Until("the change to be seen", func() bool { return len(w.Host.Enabled()) == 0 })
	}
	w.pass(time.Hour)
	w.wantEvents("of a node that is ready in time")
}

func TestDeletedNode(t *testing.T) {
	t.Parallel()
	w := nodes(t)
	w.NoError(w.User.CoreV1().Nodes().Delete(context.Background(), "node-1", metav1.DeleteOptions{}))
	w.Run()
	w.wantEvents("of a deleted node", "x1"+failedA, "x1"+failedB)
	w.pass(time.Hour)
	w.wantEvents("later", "x1"+failedA, "x1"+failedB)
}
