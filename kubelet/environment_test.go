package kubelet_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestEnvironmentOfNode: addresses and resources of a container.
//
// Upstream: pkg/kubelet TestMakeEnvironmentVariables (v1.36).
func TestEnvironmentOfNode(t *testing.T) {
	t.Parallel()
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	amount := func(container, name, divisor string) *corev1.EnvVarSource {
		ref := &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}
		if divisor != "" {
			ref.Divisor = resource.MustParse(divisor)
		}
		return &corev1.EnvVarSource{ResourceFieldRef: ref}
	}
	for _, c := range []struct {
		name string
		from *corev1.EnvVarSource
		want string
	}{
		{"address", field("status.podIP"), "10.244.1.2"},
		{"addresses", field("status.podIPs"), "10.244.1.2"},
		{"node's address", field("status.hostIP"), "10.243.0.1"},
		{"node's addresses", field("status.hostIPs"), "10.243.0.1"},
		{"CPU limit", amount("", "limits.cpu", ""), "2"},
		{"CPU limit in thousandths", amount("", "limits.cpu", "1m"), "1500"},
		{"CPU request", amount("", "requests.cpu", "1m"), "250"},
		{"memory without limit", amount("", "limits.memory", "1Gi"), "8"},
		{"memory without request", amount("", "requests.memory", ""), "0"},
		{"another container", amount("second", "limits.cpu", ""), "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			pod := shellPod(corev1.RestartPolicyNever, "", "echo $VALUE", "true")
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VALUE", ValueFrom: c.from}}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
			}
			w.createPod(pod)
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
			testcheck.Equal(t, "logs", c.want+"\n", w.logs("main"))
		})
	}
}

// TestEnvironmentOfServices: a pod sees those of its namespace, and that of the API server.
func TestEnvironmentOfServices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		links *bool
		want  string
	}{
		{"links", nil, "10.96.0.1 443 10.96.0.77 5432 own\n"},
		{"no links", ptr.To(false), "10.96.0.1 443 own\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withShell)
			_, err := w.Client().CoreV1().Services("default").Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "data-base"},
				Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.77", Ports: []corev1.ServicePort{{Port: 5432}}},
			}, metav1.CreateOptions{})
			testcheck.NoError(t, err)
			pod := shellPod(corev1.RestartPolicyNever, "",
				"echo $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT $DATA_BASE_SERVICE_HOST $DATA_BASE_SERVICE_PORT $DATA_BASE_PORT")
			pod.Spec.EnableServiceLinks = c.links
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DATA_BASE_PORT", Value: "own"}}
			w.createPod(pod)
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodSucceeded))
			testcheck.Equal(t, "logs", c.want, w.logs("main"))
		})
	}
}
