package kubelet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestTerminationMessages are the messages of containers that have exited.
//
// Upstream: pkg/kubelet/kuberuntime TestToKubeContainerStatus and its like; test/e2e_node "should report termination message".
func TestTerminationMessages(t *testing.T) {
	t.Parallel()
	const fallBack = corev1.TerminationMessageFallbackToLogsOnError
	letters := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name, script  string
		policy        corev1.TerminationMessagePolicy
		path          string
		others, inits int // further containers
		want          string
	}{
		{name: "of a file", script: "echo log; echo -n done > /dev/termination-log", want: "done"},
		{name: "of a file, failed", script: "echo log; echo -n bad > /dev/termination-log; exit 1", policy: fallBack, want: "bad"},
		{name: "of another file", script: "echo -n done > /tmp/message", path: "/tmp/message", want: "done"},
		{name: "none", script: "echo log; exit 1", want: ""},
		{name: "of the log", script: "echo log; echo bad >&2; exit 1", policy: fallBack, want: "log\nbad\n"},
		{name: "not of the log", script: "echo log", policy: fallBack, want: ""},
		{name: "long file", script: "echo -n a" + letters(4096) + " > /dev/termination-log", want: letters(4096)},
		{name: "long log", script: "echo -n a" + letters(2048) + "; exit 1", policy: fallBack, want: letters(2048)},
		{
			name: "many lines", script: "i=0; while [ $i -lt 100 ]; do echo $i; i=$((i+1)); done; exit 1", policy: fallBack,
			want: numbers(20, 100),
		},
		{name: "many containers", script: "echo -n " + letters(4096) + "> /dev/termination-log", others: 2, want: letters(4096)},
		{name: "too many containers", script: "echo -n " + letters(4096) + "> /dev/termination-log", others: 2, inits: 1, want: letters(3072)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			pod := shellPod(corev1.RestartPolicyNever, "", append([]string{c.script}, make([]string, c.others)...)...)
			pod.Spec.Containers[0].TerminationMessagePolicy, pod.Spec.Containers[0].TerminationMessagePath = c.policy, c.path
			for range c.inits {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "init", Image: "busybox", Command: []string{"true"}})
			}
			w.createPod(pod)
			w.pass(time.Minute)
			terminated := w.pod("web").Status.ContainerStatuses[0].State.Terminated
			if terminated == nil {
				t.Fatal("the container has not exited")
			}
			testcheck.Equal(t, "message", c.want, terminated.Message)
			w.delete("web")
			testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "web"))
			machine := testcheck.Must(w.Machine("node-1"))
			testcheck.Equal(t, "directories of pods", []string{}, testcheck.Must(machine.FS.ReadDir(machine.Root+"/pods")))
		})
	}
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// TestTerminationMessageOfEachRun: each run has a file of its own, and the last two are kept.
func TestTerminationMessageOfEachRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, w.claim("data"),
		"cat /dev/termination-log; echo run >> /data/f; wc -l < /data/f > /dev/termination-log; exit 1")
	w.createPod(pod)
	w.pass(3 * time.Minute)
	s := w.pod("web").Status.ContainerStatuses[0]
	testcheck.Equal(t, "last message", fmt.Sprintln(s.RestartCount+1), s.LastTerminationState.Terminated.Message)
	testcheck.Equal(t, "log", "", w.logs("main"))
	machine := testcheck.Must(w.Machine("node-1"))
	files := testcheck.Must(machine.FS.ReadDir(machine.Root + "/pods/" + string(w.pod("web").UID) + "/containers/main"))
	testcheck.Equal(t, "files", 2, len(files))
}
