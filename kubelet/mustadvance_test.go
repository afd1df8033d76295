package kubelet_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
)

func TestMustAdvance(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	crashLoop := corev1.ContainerStatus{Name: "main", RestartCount: 1, LastTerminationState: ended(1), State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
	}}
	for name, test := range map[string]struct {
		codes  string
		policy corev1.RestartPolicy
		status corev1.ContainerStatus
		want   bool
	}{
		"runs on":                {"", corev1.RestartPolicyAlways, corev1.ContainerStatus{Name: "main", State: running}, false},
		"exits":                  {"0", corev1.RestartPolicyNever, corev1.ContainerStatus{Name: "main", State: running}, true},
		"all runs but this":      {"1", corev1.RestartPolicyAlways, corev1.ContainerStatus{Name: "main", RestartCount: 1, State: running}, false},
		"another container":      {"other=0", corev1.RestartPolicyNever, corev1.ContainerStatus{Name: "main", State: running}, false},
		"invalid code":           {"bad", corev1.RestartPolicyNever, corev1.ContainerStatus{Name: "main", State: running}, false},
		"is restarted":           {"1", corev1.RestartPolicyOnFailure, corev1.ContainerStatus{Name: "main", State: ended(1)}, true},
		"has ended":              {"0", corev1.RestartPolicyOnFailure, corev1.ContainerStatus{Name: "main", State: ended(0)}, false},
		"waits for its back-off": {"1,1", corev1.RestartPolicyAlways, crashLoop, true},
		"no status":              {"0", corev1.RestartPolicyNever, corev1.ContainerStatus{Name: "other"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec:   corev1.PodSpec{RestartPolicy: test.policy, Containers: []corev1.Container{{Name: "main"}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{test.status}},
			}
			var k kubelet.Kubelet
			pod.Annotations = map[string]string{kubelet.ExitCodesAnnotation: test.codes}
			testcheck.Equal(t, "must advance", test.want, k.MustAdvance(pod))
			pod.Status.Phase = corev1.PodPending
			testcheck.Equal(t, "must advance before it runs", false, k.MustAdvance(pod))
		})
	}
}
