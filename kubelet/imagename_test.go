package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestInvalidImageName: the container waits, and starts when its image has a valid name.
func TestInvalidImageName(t *testing.T) {
	t.Parallel()
	const message = `Failed to apply default image tag "busybox:": couldn't parse image name "busybox:": invalid reference format`
	for name, configure := range map[string]func(*cluster.Config){"none": func(*cluster.Config) {}, "shell": withShell} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, configure)
			pod := shellPod(corev1.RestartPolicyAlways, "", waits)
			pod.Spec.Containers[0].Image = "busybox:"
			w.createPod(pod)
			w.pass(time.Minute)
			testcheck.Equal(t, "waiting", corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: message},
				*w.pod("web").Status.ContainerStatuses[0].State.Waiting)
			testcheck.Equal(t, "phase", corev1.PodPending, w.pod("web").Status.Phase)
			testcheck.Equal(t, "events", []string{
				"x1 Warning Failed web: Error: InvalidImageName", "x1 Warning InspectFailed web: " + message,
			}, w.events("Failed", "InspectFailed"))
			pod = w.pod("web").DeepCopy()
			pod.Spec.Containers[0].Image = "busybox"
			_, err := w.Client().CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{})
			testcheck.NoError(t, err, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
			w.debug("web", waits, func(e *corev1.EphemeralContainer) { e.Image = "busybox:" })
			w.pass(time.Minute)
			testcheck.Equal(t, "ephemeral container", "InvalidImageName", w.ephemeralOf("web"))
			testcheck.Equal(t, "container", "running", stateOf(w.pod("web").Status.ContainerStatuses[0].State))
		})
	}
}
