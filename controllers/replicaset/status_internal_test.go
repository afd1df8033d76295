package replicaset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestNewStatus: the counts of a set's pods.
func TestNewStatus(t *testing.T) {
	set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{MinReadySeconds: 60}}
	set.Spec.Template.Labels = map[string]string{"app": "web", "version": "1"}
	labelled := func(labels map[string]string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels = labels }
	}
	full, partial := labelled(set.Spec.Template.Labels), labelled(map[string]string{"app": "web"})
	ready, available := readySince(ago(30*time.Second)), readySince(ago(time.Minute))
	for _, test := range []struct {
		name string
		pods [][]func(*corev1.Pod)
		want string // replicas, fully labelled, ready, available
	}{
		{"none", nil, "0 0 0 0"},
		{"1 fullyLabelled pod", [][]func(*corev1.Pod){{full}}, "1 1 0 0"},
		{"1 pod with fewer labels", [][]func(*corev1.Pod){{partial}}, "1 0 0 0"},
		{"ready for too short a time", [][]func(*corev1.Pod){{full, ready}, {partial}}, "2 1 1 0"},
		{"available", [][]func(*corev1.Pod){{full, ready}, {full, available}}, "2 2 2 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pods []*corev1.Pod
			for _, changes := range test.pods {
				pods = append(pods, podOn("pod", "node", corev1.PodRunning, changes...))
			}
			s := newStatus(set, pods, 3, nil, now)
			got := fmt.Sprint(s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas)
			if got != test.want || *s.TerminatingReplicas != 3 {
				t.Errorf("%s, %d terminating", got, *s.TerminatingReplicas)
			}
		})
	}
}

// TestFailureCondition: the condition ReplicaFailure follows the error of the present sync. A second
// error does not change it.
func TestFailureCondition(t *testing.T) {
	failed := []appsv1.ReplicaSetCondition{{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour),
		Reason: "FailedCreate", Message: "earlier",
	}}
	refused, one, two := errors.New("refused"), int32(1), int32(2)
	for _, test := range []struct {
		name     string
		before   []appsv1.ReplicaSetCondition
		replicas *int32
		failure  error
		want     string
	}{
		{"manageReplicasErr and no failure condition, too few", nil, &two, refused, "FailedCreate refused"},
		{"manageReplicasErr and no failure condition, too many", nil, new(int32), refused, "FailedDelete refused"},
		{"manageReplicasErr and failure condition", failed, &two, refused, "FailedCreate earlier"},
		{"no error and failure condition", failed, &one, nil, ""},
		{"no error and no condition", nil, &one, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: test.replicas}}
			set.Status.Conditions = test.before
			got := ""
			for _, c := range newStatus(set, []*corev1.Pod{podOn("pod", "", "")}, 0, test.failure, now).Conditions {
				got += c.Reason + " " + c.Message
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
