package replicaset

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var now = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func podOn(name, node string, phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func readySince(t metav1.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: t,
		}}
	}
}

func cost(text string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.PodDeletionCost: text} }
}

func created(t metav1.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = t }
}

func restarted(n int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
}

func sidecarRestarted(n int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{
			Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: "sidecar", RestartCount: n}, {Name: "init", RestartCount: 100},
		}
	}
}

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// TestToDelete: which pods are deleted, and in which order.
func TestToDelete(t *testing.T) {
	var none metav1.Time
	unscheduled := podOn("unscheduled", "", corev1.PodPending)
	pending := podOn("pending", "node", corev1.PodPending)
	notReady := podOn("notReady", "node", corev1.PodRunning)
	notReady2 := podOn("notReady2", "node", corev1.PodRunning)
	on1 := podOn("on1", "node-1", corev1.PodRunning, readySince(none))
	on2 := podOn("on2", "node-2", corev1.PodRunning, readySince(none))
	type pods = []*corev1.Pod
	for _, test := range []struct {
		name          string
		pods, related pods
		count         int
		want          pods
	}{
		{"len(pods) = 0 (i.e., diff = 0 too)", nil, nil, 0, nil},
		{"diff = len(pods)", pods{notReady, on1}, nil, 2, pods{notReady, on1}},
		{"diff < len(pods)", pods{on1, notReady}, nil, 1, pods{notReady}},
		{
			"various pod phases and conditions, diff = len(pods)",
			pods{on1, on2, notReady, pending, unscheduled},
			pods{on1, on1},
			5,
			pods{on1, on2, notReady, pending, unscheduled},
		},
		{"scheduled vs unscheduled, diff < len(pods)", pods{pending, unscheduled}, nil, 1, pods{unscheduled}},
		{"ready vs not-ready, diff < len(pods)", pods{on1, notReady, notReady2}, nil, 2, pods{notReady, notReady2}},
		{
			"ready and colocated with another ready pod vs not colocated, diff < len(pods)",
			pods{on1, on2},
			pods{on1, on2, on2},
			1,
			pods{on2},
		},
		{"pending vs running, diff < len(pods)", pods{notReady, pending}, nil, 1, pods{pending}},
		{
			"various pod phases and conditions, diff < len(pods)",
			pods{on1, on2, notReady, pending, unscheduled},
			nil, 3,
			pods{unscheduled, pending, notReady},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := namesOf(toDelete(test.pods, test.related, test.count, now)); !slices.Equal(got, namesOf(test.want)) {
				t.Errorf("%v, want %v", got, namesOf(test.want))
			}
		})
	}
}

// TestCompare: of two running and ready pods, the first one is deleted first.
func TestCompare(t *testing.T) {
	day, older := ago(24*time.Hour), ago(96*time.Hour)
	ready := readySince(older)
	for _, test := range []struct {
		name          string
		first, second []func(*corev1.Pod)
	}{
		{"lower cost", []func(*corev1.Pod){ready, cost("-1")}, []func(*corev1.Pod){ready}},
		{"invalid cost is none", []func(*corev1.Pod){ready, cost("+1")}, []func(*corev1.Pod){ready, cost("1")}},
		{"cost with leading zero is none", []func(*corev1.Pod){ready, cost("01")}, []func(*corev1.Pod){ready, cost("1")}},
		{"unknown time", []func(*corev1.Pod){readySince(metav1.Time{})}, []func(*corev1.Pod){ready}},
		{"ready for a shorter time", []func(*corev1.Pod){readySince(day)}, []func(*corev1.Pod){ready}},
		{
			"of the same magnitude: the UID decides",
			[]func(*corev1.Pod){readySince(ago(70 * time.Minute)), uid("1")},
			[]func(*corev1.Pod){readySince(ago(65 * time.Minute)), uid("2")},
		},
		{"more restarts", []func(*corev1.Pod){ready, restarted(2)}, []func(*corev1.Pod){ready, restarted(1)}},
		{"more restarts of a sidecar", []func(*corev1.Pod){ready, sidecarRestarted(2)}, []func(*corev1.Pod){ready, sidecarRestarted(1)}},
		{"younger", []func(*corev1.Pod){ready, created(day)}, []func(*corev1.Pod){ready, created(older)}},
		{"created in the future", []func(*corev1.Pod){ready, created(ago(-time.Hour))}, []func(*corev1.Pod){ready, created(day)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := podOn("a", "node", corev1.PodRunning, test.first...), podOn("b", "node", corev1.PodRunning, test.second...)
			if compare(a, b, nil, now) >= 0 || compare(b, a, nil, now) <= 0 {
				t.Errorf("%d, %d", compare(a, b, nil, now), compare(b, a, nil, now))
			}
		})
	}
}

func uid(uid types.UID) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.UID = uid } }
