package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

// says returns a script that runs until TERM, and then writes its name to a file.
func says(name string) string {
	return "trap 'echo " + name + " >> /data/f; exit 0' TERM; while :; do sleep 1; done"
}

// sidecar adds a sidecar container to a pod.
func sidecar(pod *corev1.Pod, name, script string, change ...func(*corev1.Container)) {
	c := *pod.Spec.Containers[0].DeepCopy()
	c.Name, c.Command[2], c.RestartPolicy = name, script, ptr.To(corev1.ContainerRestartPolicyAlways)
	for _, f := range change {
		f(&c)
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
}

// TestOrderOfTermination: sidecar containers end after the others, in reverse order.
//
// Upstream: pkg/kubelet/kuberuntime TestTerminationOrderingSidecarsInReverseOrder and its like (v1.36).
func TestOrderOfTermination(t *testing.T) {
	t.Parallel()
	hook := func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PreStop: execHook("echo hook >> /data/f")} }
	for _, c := range []struct {
		name  string
		pod   func(pod *corev1.Pod)
		want  string
		takes time.Duration
	}{
		{name: "two sidecars", pod: func(pod *corev1.Pod) {
			sidecar(pod, "first", says("first"))
			sidecar(pod, "second", says("second"))
		}, want: "main\nsecond\nfirst\n"},
		{name: "slow main", pod: func(pod *corev1.Pod) {
			sidecar(pod, "first", says("first"))
			pod.Spec.Containers[0].Command[2] = "trap 'sleep 10; echo main >> /data/f; exit 0' TERM; while :; do sleep 1; done"
		}, want: "main\nfirst\n", takes: 10 * time.Second},
		{name: "hook of a sidecar", pod: func(pod *corev1.Pod) {
			sidecar(pod, "first", says("first"), hook)
			pod.Spec.Containers[0].Command[2] = "trap 'sleep 10; echo main >> /data/f; exit 0' TERM; while :; do sleep 1; done"
		}, want: "hook\nmain\nfirst\n", takes: 10 * time.Second},
		{name: "main that does not end", pod: func(pod *corev1.Pod) {
			sidecar(pod, "first", says("first"))
			pod.Spec.Containers[0].Command[2] = "while :; do sleep 1; done"
		}, want: "first\n", takes: 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			pod := shellPod(corev1.RestartPolicyAlways, w.claim("data"), says("main"))
			c.pod(pod)
			w.createPod(pod)
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
			w.pass(5 * time.Second)
			began := w.host.Now()
			w.delete("web")
			testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "web"))
			if took := w.host.Now().Sub(began); took < c.takes || took > c.takes+8*time.Second {
				t.Errorf("the end took %s, want %s", took, c.takes)
			}
			w.createPod(shellPod(corev1.RestartPolicyNever, "data", "cat /data/f"))
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
			testcheck.Equal(t, "order", c.want, w.logs("main"))
		})
	}
}

// TestSidecarsEndWhenTheOthersHave: the pod's phase is final when they have ended, and they are not restarted.
func TestSidecarsEndWhenTheOthersHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, main string
		life       []string
	}{
		{"succeeded", "sleep 5", []string{
			"Running main:running ready", "Running main:Completed/0", "Succeeded main:Completed/0",
		}},
		{"failed", "sleep 5; exit 2", []string{
			"Running main:running ready", "Running main:Error/2", "Failed main:Error/2",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			pod := shellPod(corev1.RestartPolicyNever, w.claim("data"), c.main)
			sidecar(pod, "proxy", "trap 'sleep 3; exit 7' TERM; while :; do sleep 1; done")
			w.createPod(pod)
			w.pass(time.Minute)
			life := w.lives["web"]
			testcheck.Equal(t, "life", c.life, life[max(0, len(life)-3):])
			s := w.pod("web").Status.InitContainerStatuses[0]
			testcheck.Equal(t, "sidecar", "Error/7", stateOf(s.State))
			testcheck.Equal(t, "restarts", int32(0), s.RestartCount)
			testcheck.Equal(t, "events", []string{"x1 Normal Killing web: Stopping container proxy"}, w.events("Killing"))
		})
	}
}

// TestEphemeralContainerEndsWithItsPod: it is stopped when the pod's containers have ended.
func TestEphemeralContainerEndsWithItsPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	w.createPod(shellPod(corev1.RestartPolicyNever, "", "sleep 30"))
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.debug("web", waits)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
	testcheck.Equal(t, "state", "Completed/0", w.ephemeralOf("web"))
	w.rest()
}

// TestSidecarOfFailedInitContainer ends, and the pod fails.
func TestSidecarOfFailedInitContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyNever, "", "true")
	sidecar(pod, "proxy", waits)
	bad := *pod.Spec.Containers[0].DeepCopy()
	bad.Name, bad.Command[2] = "bad", "exit 1"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, bad)
	w.createPod(pod)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodFailed))
	testcheck.Equal(t, "sidecar", "Completed/0", stateOf(w.pod("web").Status.InitContainerStatuses[0].State))
}
