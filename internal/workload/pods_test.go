package workload_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/workload"
)

// TestNextAvailable: after what time the next pod has been ready for 30 seconds.
func TestNextAvailable(t *testing.T) {
	now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	readyFor := func(d time.Duration) *corev1.Pod {
		pod := newPod("a", nil, true)
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-d)),
		}}
		return pod
	}
	unready, unknown := readyFor(0), readyFor(0)
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	unknown.Status.Conditions[0].LastTransitionTime = metav1.Time{}
	type pods = []*corev1.Pod
	for _, test := range []struct {
		name    string
		pods    pods
		seconds int32
		want    time.Duration
	}{
		{"no pods", nil, 30, 0},
		{"not ready", pods{unready}, 30, 0},
		{"no minReadySeconds defined", pods{readyFor(0)}, 0, 0},
		{"lastTransitionTime is zero", pods{unknown}, 30, 0},
		{"just became ready - available in 1s", pods{readyFor(0)}, 1, time.Second},
		{"ready for 20s - available in 10s", pods{readyFor(20 * time.Second)}, 30, 10 * time.Second},
		{"available", pods{readyFor(time.Minute)}, 30, 0},
		{
			"unready and ready pods should find min next availability check",
			pods{unready, readyFor(10 * time.Second), readyFor(20 * time.Second)},
			30, 10 * time.Second,
		},
		{"unready and available pods do not require min next availability check", pods{unready, readyFor(time.Minute)}, 30, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := workload.NextAvailable(test.pods, test.seconds, now); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// TestIsActive: a pod that has ended or is being deleted is no replica.
func TestIsActive(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodPending: true, corev1.PodRunning: true, corev1.PodUnknown: true, corev1.PodFailed: false, corev1.PodSucceeded: false,
	} {
		pod := newPod("a", nil, true)
		if pod.Status.Phase = phase; workload.IsActive(pod) != want {
			t.Errorf("%s: %v", phase, !want)
		}
		if pod.DeletionTimestamp = (&metav1.Time{}); workload.IsActive(pod) {
			t.Errorf("%s, being deleted", phase)
		}
	}
}

// TestPods: the pods of an owner and the orphans of its namespace, by name.
func TestPods(t *testing.T) {
	owner := newOwner("1")
	elsewhere := newPod("x", nil, true)
	elsewhere.Namespace = "other"
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	workload.IndexPods(index)
	for _, pod := range []*corev1.Pod{
		newPod("c", owner, true), newPod("b", nil, true), newPod("a", owner, true), newPod("d", newOwner("2"), true), elsewhere,
	} {
		if err := index.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	for orphans, want := range map[bool]string{false: "a c ", true: "a b c "} {
		got := ""
		for _, pod := range workload.Pods(index, owner, orphans) {
			got += pod.Name + " "
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNewPod: a pod has the template and a generated name.
func TestNewPod(t *testing.T) {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	template.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod := workload.NewPod(template, newOwner("1"), setKind)
	pod.Labels["app"] = "other"
	if pod.GenerateName != "web-" || len(pod.Spec.Containers) != 1 || pod.OwnerReferences[0].UID != "1" || template.Labels["app"] != "web" {
		t.Errorf("%+v", pod)
	}
	if got := workload.NamePrefix("Web"); got != "Web" {
		t.Error("a name that no pod may have")
	}
}
