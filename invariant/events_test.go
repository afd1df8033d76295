package invariant

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim/trace"
)

// record stores an event about a pod as a recorder does: it creates the first one and counts the
// following ones.
func (w *opsWorld) record(pod *corev1.Pod, message string) {
	w.Helper()
	name := fmt.Sprintf("%s.%d", pod.Name, len(message))
	events := w.User.CoreV1().Events("default")
	obj, found := w.Server.Get("events", "default", name)
	now := metav1.NewTime(w.Host.Now())
	if found {
		event := obj.(*corev1.Event).DeepCopy()
		event.Count++
		event.LastTimestamp = now
		_, err := events.Update(w.Context(), event, updateOptions)
		w.NoError(err)
		return
	}
	_, err := events.Create(w.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod.Name, UID: pod.UID},
		Reason:         "FailedMount", Message: message, Type: corev1.EventTypeWarning, Count: 1,
		FirstTimestamp: now, LastTimestamp: now, ReportingController: "kubelet", ReportingInstance: "node-1",
	}, metav1.CreateOptions{})
	w.NoError(err)
}

func TestEventRate(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name string
		play func(w *opsWorld, pod *corev1.Pod)
		want []string
	}{
		{"repeatedly", func(w *opsWorld, pod *corev1.Pod) {
			for range 4 {
				w.record(pod, "ill")
			}
		}, []string{`L9: an event repeated too often while nothing changes: Pod default/web had 4 events "FailedMount" ("ill") ` +
			`while nothing changed, the last one 0s after the one before`}},
		{"at growing intervals, as for a failing operation", func(w *opsWorld, pod *corev1.Pod) {
			for _, rest := range []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s, 10 * s} {
				w.record(pod, "ill")
				w.pass(rest)
			}
			w.record(pod, "ill")
		}, nil},
		{"at each resync", func(w *opsWorld, pod *corev1.Pod) {
			for range 8 {
				w.record(pod, "ill")
				w.pass(15 * s)
			}
		}, nil},
		{"each second for a long time", func(w *opsWorld, pod *corev1.Pod) {
			for range 5 {
				w.record(pod, "ill")
				w.pass(s)
			}
		}, []string{"had 5 events"}},
		{"another message each time", func(w *opsWorld, pod *corev1.Pod) {
			for _, message := range []string{"i", "il", "ill", "ill!", "ill!!"} {
				w.record(pod, message)
			}
		}, nil},
		{"after a change each time", func(w *opsWorld, pod *corev1.Pod) {
			for _, phase := range []corev1.PodPhase{
				corev1.PodRunning, corev1.PodPending, corev1.PodFailed,
				corev1.PodUnknown, corev1.PodRunning,
			} {
				w.setPhase(pod, phase)
				w.pass(2 * s)
				w.record(pod, "ill")
				w.pass(2 * s)
				obj, _ := w.Server.Get("pods", "default", "web")
				pod = obj.(*corev1.Pod)
			}
		}, nil},
		{"after a driver call each time", func(w *opsWorld, pod *corev1.Pod) {
			for range 5 {
				w.record(pod, "ill")
				w.note("kubelet(node-1)/x", trace.KindDriver, "NodeStageVolume", "disk/vol-1", "", errDriver)
			}
		}, nil},
		{"after a failed request each time", func(w *opsWorld, pod *corev1.Pod) {
			for range 5 {
				w.record(pod, "ill")
				w.note("kubelet(node-1)/x", trace.KindAPI, "get", "volumeattachments/a", "", errDriver)
			}
		}, nil},
		{"after a read each time, which is no change", func(w *opsWorld, pod *corev1.Pod) {
			for range 4 {
				w.record(pod, "ill")
				w.note("kubelet(node-1)/x", trace.KindAPI, "get", "volumeattachments/a", "rv=7", nil)
			}
		}, []string{"had 4 events"}},
		{"recorded before the change, and written after it", func(w *opsWorld, pod *corev1.Pod) {
			for range 5 {
				w.recordAt(pod, w.Host.Now().Add(-3*s))
			}
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newOpsWorld(t, "L9")
			w.pass(5 * s)
			pod := w.addPod("web", "node-1")
			w.pass(2 * s)
			test.play(w, pod)
			w.broken(test.want...)
		})
	}
}

// recordAt stores a new event with a given time.
func (w *opsWorld) recordAt(pod *corev1.Pod, at time.Time) {
	w.Helper()
	_, err := w.User.CoreV1().Events("default").Create(w.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod.Name, UID: pod.UID},
		Reason:         "FailedMount", Message: "ill", Type: corev1.EventTypeWarning, Count: 1,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
		ReportingController: "kubelet", ReportingInstance: "node-1",
	}, metav1.CreateOptions{})
	w.NoError(err)
}
