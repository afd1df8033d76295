package kubelet_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// execHook returns a hook that executes a script.
func execHook(script string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}
}

// TestPostStart: a container runs when its hook has returned, and ends if that fails.
func TestPostStart(t *testing.T) {
	t.Parallel()
	const first = "Pending"
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		script string
		hook   *corev1.LifecycleHandler
		life   []string
		events []string
	}{
		{
			name: "returns", policy: corev1.RestartPolicyNever, script: "while [ ! -e /data/f ]; do sleep 1; done; sleep 5",
			hook: execHook("sleep 10; touch /data/f"),
			life: []string{first, "Pending main:ContainerCreating", "Running main:running ready", "Succeeded main:Completed/0"},
		},
		{
			name: "sleeps", policy: corev1.RestartPolicyNever, script: "sleep 20",
			hook: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}},
			life: []string{first, "Pending main:ContainerCreating", "Running main:running ready", "Succeeded main:Completed/0"},
		},
		{
			name: "fails", policy: corev1.RestartPolicyNever, script: waits, hook: execHook("echo out; echo bad >&2; exit 3"),
			life: []string{first, "Pending main:ContainerCreating", "Succeeded main:Completed/0"},
			events: []string{
				"x1 Normal Killing web: FailedPostStartHook", "x1 Warning FailedPostStartHook web: PostStartHook failed",
			},
		},
		{
			name: "fails, is executed again", policy: corev1.RestartPolicyAlways, script: waits,
			hook: execHook("test -e /data/f || { touch /data/f; exit 3; }"),
			life: []string{first, "Pending main:ContainerCreating", "Running main:PostStartHookError", "Running main:running(1) ready"},
			events: []string{
				"x1 Normal Killing web: FailedPostStartHook", "x1 Warning FailedPostStartHook web: PostStartHook failed",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			pod := shellPod(c.policy, w.claim("data"), c.script)
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: c.hook}
			w.createPod(pod)
			w.pass(2 * time.Minute)
			testcheck.Equal(t, "life", c.life, w.lives["web"])
			testcheck.Equal(t, "events", c.events, w.events("Killing", "FailedPostStartHook"))
		})
	}
}

// TestPostStartMessage: the status of a container says why its hook has failed.
func TestPostStartMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, "", waits)
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: execHook("echo out; echo bad >&2; exit 3")}
	w.createPod(pod)
	message := ""
	testcheck.NoError(t, w.Wait(t.Context(), "the hook to fail", func() bool {
		all := w.pod("web").Status.ContainerStatuses
		if len(all) > 0 && all[0].State.Waiting != nil && all[0].State.Waiting.Reason == "PostStartHookError" {
			message = all[0].State.Waiting.Message
		}
		return message != ""
	}))
	want := `Exec lifecycle hook ([sh -c echo out; echo bad >&2; exit 3]) for Container "main" in Pod "web_default(UID)" failed - error: ` +
		"command 'sh -c echo out; echo bad >&2; exit 3' exited with 3: bad\n" + `, message: "out\nbad\n"`
	testcheck.Equal(t, "message", want, strings.ReplaceAll(message, string(w.pod("web").UID), "UID"))
	w.pass(5 * time.Minute)
	testcheck.Equal(t, "later", "CrashLoopBackOff", stateOf(w.pod("web").Status.ContainerStatuses[0].State))
}

// TestPostStartOfRestartedKubelet: the hook is not executed again.
func TestPostStartOfRestartedKubelet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, w.claim("data"), waits)
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: execHook("echo hook >> /data/f; sleep 60")}
	w.createPod(pod)
	w.pass(30 * time.Second)
	testcheck.NoError(t, w.Stop("kubelet(node-1)"), w.Resume("kubelet(node-1)"), w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.pass(2 * time.Minute)
	testcheck.Equal(t, "file", "hook\n", string(testcheck.Must(w.ReadFile("default", "web", "data", "f"))))
	testcheck.Equal(t, "life", "Running main:running ready", w.lives["web"][len(w.lives["web"])-1])
}

// TestDeletedDuringPostStart: the pod's containers end without waiting for the hook.
func TestDeletedDuringPostStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, "", waits)
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: execHook("sleep 3600")}
	w.createPod(pod)
	w.pass(30 * time.Second)
	began := w.host.Now()
	w.delete("web")
	testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "web"))
	if took := w.host.Now().Sub(began); took > 10*time.Second {
		t.Errorf("the end took %s", took)
	}
}
