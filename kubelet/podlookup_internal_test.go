package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestPod looks up pods, of which two have the same name: one that was deleted, and its successor.
func TestPod(t *testing.T) {
	t.Parallel()
	k := &Kubelet{known: map[types.UID]*corev1.Pod{}}
	for i, pod := range []struct{ namespace, name, uid string }{
		{"a", "web", "1"}, {"a", "web-0", "3"}, {"b", "web-0", "4"}, {"a", "web-0", "2"},
	} {
		k.known[types.UID(pod.uid)] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.namespace, Name: pod.name, UID: types.UID(pod.uid), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		}}
	}
	for name, want := range map[string]types.UID{"web": "1", "web-0": "2", "web-1": ""} {
		got := types.UID("")
		if pod := k.Pod("a", name); pod != nil {
			got = pod.UID
		}
		testcheck.Equal(t, name, want, got)
	}
}
