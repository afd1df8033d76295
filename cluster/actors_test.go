package cluster_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

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

func listen(t *testing.T, c *cluster.Cluster) *clientrest.Config {
	l, err := apiserver.Listen(apiserver.ListenConfig{Handler: apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() },
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Config()
}

// inMemory returns the configuration that a component's clients have.
func inMemory(_ *testing.T, c *cluster.Cluster) *clientrest.Config {
	return apiserver.NewConfig(c.Server(), sim.DirectCaller())
}

// TestCreationWarnsOfWhatVolsimDoesNotDo creates objects by HTTP and in memory.
func TestCreationWarnsOfWhatVolsimDoesNotDo(t *testing.T) {
	t.Parallel()
	const (
		noServices   = "volsim stores services; no controller acts on it"
		noContainers = "volsim runs no images and commands; a pod is Running when its volumes are mounted"
		noImages     = "volsim runs no images; its own shell and tools execute the commands of containers"
	)
	for _, tt := range []struct {
		name       string
		components []string
		containers cluster.Containers
		config     func(t *testing.T, c *cluster.Cluster) *clientrest.Config
		want       []string
	}{
		{"all components, by HTTPS", nil, "", listen, []string{noServices, noContainers}},
		{"all components and containers", nil, cluster.ShellContainers, listen, []string{noServices, noImages}},
		{"one component, in memory", []string{"pvcontroller"}, "", inMemory, []string{
			noServices, "volsim stores pods; component scheduler, kubelet, which acts on it, does not run",
			"volsim stores deployments.apps; component deployment, replicaset, which acts on it, does not run",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := cluster.New(cluster.Config{
				Components: tt.components, Devices: cluster.Array, Containers: tt.containers, Stepped: &sim.SteppedConfig{},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			cfg, got := tt.config(t, c), &heard{}
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

// TestEveryKindHasAnActor checks that a served resource is in the list of actors, that the list's
// components exist, and that README.md names the kinds that are stored only.
func TestEveryKindHasAnActor(t *testing.T) {
	t.Parallel()
	c, err := cluster.New(cluster.Config{Devices: cluster.Array, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, limits, _ := strings.Cut(string(readme), "Nothing acts on objects of these kinds")
	limits, _, _ = strings.Cut(limits, ". The list in code is")
	_, limits, _ = strings.Cut(limits, ": ")
	named := strings.Split(limits, ", ")
	var served, stored []string
	for _, r := range c.Server().Resources() {
		name := schema.GroupResource{Group: r.Group, Resource: r.Name}.String()
		if !slices.Contains(r.Verbs, "list") {
			continue // an access or authentication review
		}
		served = append(served, name)
		actor, ok := cluster.Actors[name]
		if !ok {
			t.Errorf("%s is served, but not listed in actors.go", name)
		}
		if actor.StoredOnly() {
			stored = append(stored, r.Kind)
		}
		for _, each := range actor.Components() {
			if !slices.ContainsFunc(c.Components(), func(p string) bool { return p == each || strings.HasPrefix(p, each+"(") }) {
				t.Errorf("%s: no component %s", name, each)
			}
		}
	}
	for name := range cluster.Actors {
		if !slices.Contains(served, name) {
			t.Errorf("%s is not served", name)
		}
	}
	slices.Sort(stored)
	stored = slices.Compact(stored) // a kind may be served in several versions
	if diff := cmp.Diff(stored, named); diff != "" {
		t.Errorf("kinds that are stored only (-actors.go +README.md):\n%s", diff)
	}
}
