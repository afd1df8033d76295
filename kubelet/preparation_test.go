package kubelet_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// withInit returns a pod whose init container executes a script before main mounts a subPath of the same volume.
func withInit(claim, script, subPath, main string) *corev1.Pod {
	pod := shellPod(corev1.RestartPolicyNever, claim, main)
	init := *pod.Spec.Containers[0].DeepCopy()
	init.Name, init.Command[2] = "init", script
	pod.Spec.InitContainers = []corev1.Container{init}
	mount := &pod.Spec.Containers[0].VolumeMounts[0]
	mount.MountPath, mount.SubPath = "/part", subPath
	return pod
}

// TestContainersArePreparedWhenTheyStart shows what an init container has made of a subPath of the next one.
func TestContainersArePreparedWhenTheyStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, main, status, logs string }{
		{"a directory", "mkdir /data/sub; echo made >/data/sub/f", "cat /part/f", "Completed/0", "made\n"},
		{"a file", "echo made >/data/sub", "cat /part; echo more >>/part; cat /part", "Completed/0", "made\nmade\nmore\n"},
		{"a link inside", "mkdir /data/d; ln -s d /data/sub; echo made >/data/d/f", "cat /part/f", "Completed/0", "made\n"},
		{"a link outside", "ln -s /bin /data/sub", "ls /part", "CreateContainerConfigError", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			w.createPod(withInit(w.claim("data"), c.script, "sub", c.main))
			if c.logs != "" {
				w.rest()
				testcheck.Equal(t, "logs", c.logs, w.logs("main"))
			}
			is := func() string {
				pod := testcheck.Must(w.Client().CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{}))
				i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "main" })
				if i < 0 {
					return ""
				}
				switch s := pod.Status.ContainerStatuses[i].State; {
				case s.Waiting != nil:
					return s.Waiting.Reason
				case s.Terminated != nil && s.Terminated.ExitCode == 0:
					return s.Terminated.Reason + "/0"
				}
				return ""
			}
			testcheck.NoError(t, w.Wait(t.Context(), "status "+c.status, func() bool { return is() == c.status }))
		})
	}
}

// TestEnvironmentIsReadForEachRun shows a change of a ConfigMap to the next run of a container.
func TestEnvironmentIsReadForEachRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	maps := w.Client().CoreV1().ConfigMaps("default")
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": "first"}}
	settings = testcheck.Must(maps.Create(t.Context(), settings, metav1.CreateOptions{}))
	pod := shellPod(corev1.RestartPolicyOnFailure, w.claim("data"),
		"echo $KEY >>/data/f; cat /data/f; while [ ! -e /data/go ]; do sleep 1; done; [ $KEY = second ]")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "key",
	}}}}
	w.createPod(pod)
	testcheck.NoError(t, w.Wait(t.Context(), "the first run", func() bool {
		text, err := w.Logs("default", "web", "main")
		return err == nil && strings.Contains(text, "first")
	}))
	settings.Data["key"] = "second"
	testcheck.Must(maps.Update(t.Context(), settings, metav1.UpdateOptions{}))
	result := testcheck.Must(w.Exec(t.Context(), "default", "web", "main", "touch", "/data/go"))
	testcheck.Equal(t, "code", int32(0), result.Code)
	w.rest()
	testcheck.Equal(t, "logs", "first\nsecond\n", w.logs("main"))
}
