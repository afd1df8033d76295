package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// debug adds an ephemeral container named debug to a pod, which executes a script.
func (w *world) debug(pod, script string, change ...func(*corev1.EphemeralContainer)) {
	w.t.Helper()
	pods := w.Client().CoreV1().Pods("default")
	p := testcheck.Must(pods.Get(w.t.Context(), pod, metav1.GetOptions{}))
	c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "busybox", Command: []string{"sh", "-c", script},
	}}
	for _, f := range change {
		f(&c)
	}
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
	_, err := pods.UpdateEphemeralContainers(w.t.Context(), pod, p, metav1.UpdateOptions{})
	testcheck.NoError(w.t, err)
}

// ephemeralOf returns the state of a pod's ephemeral container, "-" if it has none.
func (w *world) ephemeralOf(pod string) string {
	w.t.Helper()
	if all := w.pod(pod).Status.EphemeralContainerStatuses; len(all) > 0 {
		return stateOf(all[0].State)
	}
	return "-"
}

const waits = "trap 'exit 0' TERM; while :; do sleep 1; done"

// TestEphemeralContainer runs next to the others, sees their volumes and is not restarted.
func TestEphemeralContainer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, state, logs string
	}{
		{"completes", "cat /data/f", "Completed/0", "from main\n"},
		{"fails", "echo bad; exit 3", "Error/3", "bad\n"},
		{"runs", "echo up; " + waits, "running", "up\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			w.createPod(shellPod(corev1.RestartPolicyAlways, w.claim("data"), "echo from main > /data/f; "+waits))
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
			w.pass(5 * time.Second)
			w.debug("web", c.script, func(e *corev1.EphemeralContainer) {
				e.VolumeMounts = []corev1.VolumeMount{{Name: w.pod("web").Spec.Volumes[0].Name, MountPath: "/data"}}
			})
			w.pass(time.Minute)
			testcheck.Equal(t, "state", c.state, w.ephemeralOf("web"))
			testcheck.Equal(t, "logs", c.logs, testcheck.Must(w.Logs("default", "web", "debug")))
			testcheck.Equal(t, "main", "Running main:running ready", w.lives["web"][len(w.lives["web"])-1])
			w.delete("web")
			testcheck.NoError(t, w.WaitForGone(t.Context(), "pods", "default", "web"))
		})
	}
}

// TestEphemeralContainerThatCannotBeConfigured waits, and does not keep another container from being restarted.
func TestEphemeralContainerThatCannotBeConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	w.createPod(shellPod(corev1.RestartPolicyAlways, "", "sleep 30"))
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.debug("web", "echo $LEVEL", func(e *corev1.EphemeralContainer) {
		e.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	})
	w.pass(time.Minute)
	testcheck.Equal(t, "state", "CreateContainerConfigError", w.ephemeralOf("web"))
	if w.pod("web").Status.ContainerStatuses[0].RestartCount == 0 {
		t.Error("main was not restarted")
	}
	_, err := w.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"LEVEL": "high"},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	w.pass(time.Minute)
	testcheck.Equal(t, "logs", "high\n", testcheck.Must(w.Logs("default", "web", "debug")))
	testcheck.Equal(t, "events", []string{`x1 Warning Failed web: Error: configmap "settings" not found`}, w.events("Failed"))
}

// TestEphemeralContainerWithoutRuntime runs until its pod ends, and is not restarted after a boot.
func TestEphemeralContainerWithoutRuntime(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*cluster.Config){"none": func(*cluster.Config) {}, "shell": withShell} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, configure)
			w.createPod(shellPod(corev1.RestartPolicyAlways, "", waits))
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
			w.debug("web", waits)
			w.pass(time.Minute)
			testcheck.Equal(t, "state", "running", w.ephemeralOf("web"))
			testcheck.NoError(t, w.Reboot("node-1"))
			w.pass(time.Minute)
			testcheck.Equal(t, "after a boot", "ContainerStatusUnknown/137", w.ephemeralOf("web"))
			testcheck.Equal(t, "main", "running", stateOf(w.pod("web").Status.ContainerStatuses[0].State))
		})
	}
}

// TestEphemeralContainerOfUnusedVolume: a volume that no other container mounts is mounted for it.
func TestEphemeralContainerOfUnusedVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell)
	pod := shellPod(corev1.RestartPolicyAlways, w.claim("data"), waits)
	volume := pod.Spec.Volumes[0].Name
	pod.Spec.Containers[0].VolumeMounts = nil
	w.createPod(pod)
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.debug("web", "echo late > /data/f", func(e *corev1.EphemeralContainer) {
		e.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: "/data"}}
	})
	w.pass(5 * time.Minute)
	testcheck.Equal(t, "state", "Completed/0", w.ephemeralOf("web"))
	testcheck.Equal(t, "file", "late\n", string(testcheck.Must(w.ReadFile("default", "web", "data", "f"))))
}

// TestEphemeralContainerWithAccess: a kubelet with its own rights adds and starts one, with the variables of services.
func TestEphemeralContainerWithAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withShell, func(cfg *cluster.Config) { cfg.API.RBAC = true })
	w.createPod(shellPod(corev1.RestartPolicyAlways, "", waits))
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.debug("web", "echo $KUBERNETES_SERVICE_HOST")
	w.pass(time.Minute)
	testcheck.Equal(t, "logs", "10.96.0.1\n", testcheck.Must(w.Logs("default", "web", "debug")))
}
