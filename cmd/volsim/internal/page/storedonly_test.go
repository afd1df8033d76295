package page

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

// heard collects the warnings of the answers to a client.
type heard struct {
	mu    sync.Mutex
	texts []string
}

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

// TestCreationWarnsOfWhatVolsimDoesNotDo creates objects by HTTP. The trace has no trace of the warnings.
func TestCreationWarnsOfWhatVolsimDoesNotDo(t *testing.T) {
	t.Parallel()
	const noContainers = "volsim runs no images and commands; a pod is Running when its volumes are mounted"
	for _, tt := range []struct {
		name       string
		components []string
		want       []string
	}{
		{"all components", nil, []string{"volsim stores services; no controller acts on it", noContainers, "volsim stores deployments.apps; no controller acts on it"}},
		{"one component", []string{"pvcontroller"}, []string{
			"volsim stores services; no controller acts on it", "volsim stores pods; component scheduler, kubelet, which acts on it, does not run",
			"volsim stores deployments.apps; no controller acts on it",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := cluster.New(cluster.Config{Components: tt.components, Devices: cluster.Array, Stepped: &sim.SteppedConfig{}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			l, err := apiserver.Listen(apiserver.ListenConfig{Handler: apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{
				Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }, CreateWarnings: CreateWarnings(c),
			})})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			cfg, got := l.Config(), &heard{}
			cfg.WarningHandlerWithContext = got
			client, ctx := kubernetes.NewForConfigOrDie(cfg), t.Context()
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			stored, err := client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stored.Labels = map[string]string{"a": "b"}
			pod := cluster.NewPod("web", "data")
			meta := metav1.ObjectMeta{Name: "d", Labels: map[string]string{"a": "b"}}
			_, updateErr := client.CoreV1().Services("default").Update(ctx, stored, metav1.UpdateOptions{}) // no creation
			_, configErr := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
			_, claimErr := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{})
			_, podErr := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			_, deployErr := client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: meta.Labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}, Spec: pod.Spec},
			}}, metav1.CreateOptions{})
			for _, err := range []error{updateErr, configErr, claimErr, podErr, deployErr} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, got.texts); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryKindIsKnown checks that each row names a resource and its components.
func TestEveryKindIsKnown(t *testing.T) {
	t.Parallel()
	c, err := cluster.New(cluster.Config{Devices: cluster.Array, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var served []string
	for _, r := range c.Server().Resources() {
		served = append(served, schema.GroupResource{Group: r.Group, Resource: r.Name}.String())
	}
	for name, components := range actors {
		if !slices.Contains(served, name) {
			t.Errorf("%s is not served", name)
		}
		for _, each := range components {
			if !slices.Contains(c.Components(), each) && each != "kubelet" {
				t.Errorf("%s: no component %s", name, each)
			}
		}
	}
}
