package pvcprotection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim"
)

func podOf(uid types.UID, claim string, edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: uid}}
	pod.Spec.NodeName = "node-1"
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	if edit != nil {
		edit(pod)
	}
	return pod
}

// TestPodEventsQueueClaims has the cases of upstream's TestPVCProtectionController about events of
// pods.
func TestPodEventsQueueClaims(t *testing.T) {
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	status := func(state corev1.ContainerState) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			deleted(pod)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: state}}
		}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	changed := func(pod *corev1.Pod) func(*controller) { return func(c *controller) { c.podChanged(pod) } }
	tests := []struct {
		name  string
		event func(*controller)
		want  int // queued claims
	}{
		{"running", changed(podOf("u", "c", nil)), 0},
		{"not scheduled", changed(podOf("u", "c", func(pod *corev1.Pod) { pod.Spec.NodeName = "" })), 1},
		{"completed", changed(podOf("u", "c", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })), 1},
		{"failed", changed(podOf("u", "c", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })), 1},
		{"being deleted, runs", changed(podOf("u", "c", status(running))), 0},
		{"being deleted, ended", changed(podOf("u", "c", status(ended))), 1},
		{"deleted by force, runs by its status", changed(podOf("u", "c", func(pod *corev1.Pod) {
			status(running)(pod)
			pod.DeletionGracePeriodSeconds = ptr.To(int64(0))
		})), 1},
		{"gone", func(c *controller) { c.podDeleted(podOf("u", "c", nil)) }, 1},
		{"gone, by tombstone", func(c *controller) {
			c.podDeleted(cache.DeletedFinalStateUnknown{Key: "default/p", Obj: podOf("u", "c", nil)})
		}, 1},
		{"recreated with another claim, observed as an update", func(c *controller) {
			c.podReplaced(podOf("u", "c", nil), podOf("x", "d", nil))
		}, 1},
		{"updated", func(c *controller) { c.podReplaced(podOf("u", "c", nil), podOf("u", "c", nil)) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := sim.NewStepped(sim.SteppedConfig{})
			defer host.Close()
			c := &controller{queue: sim.NewQueue[string](host.Process("pvcprotection"), sim.QueueConfig{})}
			tt.event(c)
			if got := c.queue.Len(); got != tt.want {
				t.Errorf("got %d claims queued, want %d", got, tt.want)
			}
		})
	}
}
