package fake_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestEphemeralContainers are writes of a pod's ephemeral containers.
//
// Upstream: pkg/apis/core/validation TestValidateEphemeralContainers, TestValidatePodEphemeralContainersUpdate (v1.36).
func TestEphemeralContainers(t *testing.T) {
	t.Parallel()
	const path = "spec.ephemeralContainers"
	named := func(name string) corev1.EphemeralContainer {
		return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"}}
	}
	for _, c := range []struct {
		name   string
		before []corev1.EphemeralContainer
		change func(pod *corev1.Pod)
		want   string // the error; "" means none
	}{
		{name: "none", change: func(*corev1.Pod) {}},
		{name: "one", change: func(p *corev1.Pod) { add(p, named("debug")) }},
		{name: "a second", before: []corev1.EphemeralContainer{named("debug")}, change: func(p *corev1.Pod) { add(p, named("other")) }},
		{name: "with a target", change: func(p *corev1.Pod) {
			e := named("debug")
			e.TargetContainerName = "c"
			add(p, e)
		}},
		{
			name: "a container's name", change: func(p *corev1.Pod) { add(p, named("c")) },
			want: path + `[0].name: Duplicate value: "c"`,
		},
		{
			name: "the same name twice", change: func(p *corev1.Pod) { add(p, named("debug"), named("debug")) },
			want: path + `[1].name: Duplicate value: "debug"`,
		},
		{name: "an unknown target", change: func(p *corev1.Pod) {
			e := named("debug")
			e.TargetContainerName = "none"
			add(p, e)
		}, want: path + `[0].targetContainerName: Not found: "none"`},
		{name: "without an image", change: func(p *corev1.Pod) {
			e := named("debug")
			e.Image = ""
			add(p, e)
		}, want: path + `[0].image: Required value`},
		{name: "with ports", change: func(p *corev1.Pod) {
			e := named("debug")
			e.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
			add(p, e)
		}, want: path + `[0].ports: Forbidden: cannot be set for an Ephemeral Container`},
		{name: "with resources", change: func(p *corev1.Pod) {
			e := named("debug")
			e.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: {}}
			add(p, e)
		}, want: path + `[0].resources: Forbidden: cannot be set for an Ephemeral Container`},
		{name: "with a probe and hooks", change: func(p *corev1.Pod) {
			e := named("debug")
			e.LivenessProbe, e.Lifecycle = &corev1.Probe{}, &corev1.Lifecycle{}
			add(p, e)
		}, want: "[" + path + `[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container, ` +
			path + `[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container]`},
		{name: "with a subPath", change: func(p *corev1.Pod) {
			e := named("debug")
			e.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: "a"}}
			add(p, e)
		}, want: path + `[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container`},
		{
			name: "removed", before: []corev1.EphemeralContainer{named("debug")},
			change: func(p *corev1.Pod) { p.Spec.EphemeralContainers = nil },
			want:   path + ": Forbidden: existing ephemeral containers \"debug\" may not be removed\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, clientset := newServer(t)
			client := clientset.CoreV1().Pods("default")
			pod := podOn("web", corev1.PodRunning, true)
			pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			pod = testcheck.Must(client.Create(t.Context(), pod, metav1.CreateOptions{}))
			if c.before != nil {
				add(pod, c.before...)
				pod = testcheck.Must(client.UpdateEphemeralContainers(t.Context(), "web", pod, metav1.UpdateOptions{}))
			}
			sent := pod.DeepCopy()
			c.change(sent)
			_, err := client.UpdateEphemeralContainers(t.Context(), "web", sent, metav1.UpdateOptions{})
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), `Pod "web" is invalid: `)
			}
			testcheck.Equal(t, "error", c.want, got)
		})
	}
}

func add(pod *corev1.Pod, all ...corev1.EphemeralContainer) {
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, all...)
}

// TestEphemeralContainersKeepTheRest: a write changes nothing else, and an update of the pod cannot add them.
func TestEphemeralContainersKeepTheRest(t *testing.T) {
	t.Parallel()
	_, clientset := newServer(t)
	client := clientset.CoreV1().Pods("default")
	pod := testcheck.Must(client.Create(t.Context(), podOn("web", corev1.PodRunning, true), metav1.CreateOptions{}))
	patch := `{"metadata":{"labels":{"x":"y"}},"spec":{"activeDeadlineSeconds":5,"ephemeralContainers":[{"name":"debug","image":"busybox"}]},"status":{"phase":"Failed"}}`
	patched := testcheck.Must(client.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "ephemeralcontainers"))
	testcheck.Equal(t, "generation", pod.Generation+1, patched.Generation)
	testcheck.Equal(t, "defaults", corev1.EphemeralContainerCommon{
		Name: "debug", Image: "busybox", ImagePullPolicy: corev1.PullAlways,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}, patched.Spec.EphemeralContainers[0].EphemeralContainerCommon)
	testcheck.Equal(t, "labels", pod.Labels, patched.Labels)
	testcheck.Equal(t, "status", pod.Status, patched.Status)
	if patched.Spec.ActiveDeadlineSeconds != nil {
		t.Error("the deadline was written")
	}
	patched.Spec.EphemeralContainers = nil
	_, err := client.Update(t.Context(), patched, metav1.UpdateOptions{})
	if err == nil {
		t.Error("an update of the pod removed the ephemeral containers")
	}
}
