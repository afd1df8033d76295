package envtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/envtest"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

var storesV1 = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "stores"}

// start starts an environment, and stops it after the test.
func start(t *testing.T, e *envtest.Environment) *rest.Config {
	t.Helper()
	config, err := e.Start()
	testcheck.NoError(t, err)
	t.Cleanup(func() { testcheck.NoError(t, e.Stop()) })
	return config
}

// storesOf returns a client of stores in the namespace default.
func storesOf(t *testing.T, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	testcheck.NoError(t, err)
	return client.Resource(storesV1).Namespace(metav1.NamespaceDefault)
}

func newStore(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Store",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": "1Gi"},
	}}
}

// The controllers that envtest lacks: a claim of an owner binds, a pod runs, the owner's deletion
// collects both, and a deleted namespace goes.
func TestComponentsRun(t *testing.T) {
	e := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}, ErrorIfCRDPathMissing: true}
	config := start(t, e)
	ctx, c := t.Context(), e.Cluster()
	if kind, _ := c.Devices(); kind != cluster.Array {
		t.Errorf("the volumes are on %q, want %q", kind, cluster.Array)
	}
	owner, err := storesOf(t, config).Create(ctx, newStore("photos"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	claim, pod := cluster.NewClaim("data", "64Mi"), cluster.NewPod("db", "data")
	for _, child := range []metav1.Object{claim, pod} {
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, storesV1.GroupVersion().WithKind("Store"))})
	}
	client, err := kubernetes.NewForConfig(config)
	testcheck.NoError(t, err)
	_, err = client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	testcheck.NoError(t, c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound))
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "db", corev1.PodRunning))

	testcheck.NoError(t, storesOf(t, config).Delete(ctx, "photos", metav1.DeleteOptions{}))
	testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "db"))
	testcheck.NoError(t, c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data"))

	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = client.CoreV1().PersistentVolumeClaims("team").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	testcheck.NoError(t, client.CoreV1().Namespaces().Delete(ctx, "team", metav1.DeleteOptions{}))
	testcheck.NoError(t, c.WaitForGone(ctx, "namespaces", "", "team"))
	testcheck.NoError(t, c.WaitForRest(ctx))
}

// With an empty list of components nothing acts, as in controller-runtime's envtest.
func TestNoComponents(t *testing.T) {
	e := &envtest.Environment{ClusterConfig: cluster.Config{Components: []string{}}}
	client, err := kubernetes.NewForConfig(start(t, e))
	testcheck.NoError(t, err)
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim, err := claims.Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	claim.Status.Phase = corev1.ClaimLost // as a suite that plays the controller
	_, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	testcheck.NoError(t, err)
	if nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || len(nodes.Items) > 0 {
		t.Errorf("got %d nodes, %v", len(nodes.Items), err)
	}
}

// A silentDriver answers no call.
type silentDriver struct{ grpc.ClientConnInterface }

func (silentDriver) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// What would change the meaning of a suite is refused, and nothing is left running.
func TestStartRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		env  envtest.Environment
		want string
	}{
		{"existing cluster", envtest.Environment{UseExistingCluster: ptr.To(true)}, "an existing cluster is asked for"},
		{
			"webhooks without files",
			envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"config/webhook"}}},
			"read configurations of webhooks: stat config/webhook: no such file or directory",
		},
		{"stepped", envtest.Environment{ClusterConfig: cluster.Config{Stepped: &sim.SteppedConfig{}}}, "Stepped is set"},
		{"cluster", envtest.Environment{ClusterConfig: cluster.Config{Devices: "tape"}}, `devices "tape"`},
		{
			"time",
			envtest.Environment{
				ControlPlaneStartTimeout: time.Millisecond,
				ClusterConfig: cluster.Config{Interceptors: cluster.Interceptors{
					Driver: func(string, grpc.ClientConnInterface) grpc.ClientConnInterface { return silentDriver{} },
				}},
			},
			"nodes and driver to register",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := c.env.Start()
			if err == nil || !strings.Contains(err.Error(), c.want) || config != nil {
				t.Errorf("got %v, %v, want an error with %q", config, err, c.want)
			}
			if c.env.Cluster() != nil {
				t.Error("the cluster still runs")
			}
			testcheck.NoError(t, c.env.Stop())
		})
	}
}

func TestExistingClusterByVariable(t *testing.T) {
	t.Setenv("USE_EXISTING_CLUSTER", "True")
	e := &envtest.Environment{}
	if _, err := e.Start(); err == nil || !strings.Contains(err.Error(), "USE_EXISTING_CLUSTER") {
		t.Errorf("got %v", err)
	}
	start(t, &envtest.Environment{UseExistingCluster: ptr.To(false)})
}

// The scheme and the configuration are those of the environment, too.
func TestStartSetsFields(t *testing.T) {
	e := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}}
	config := start(t, e)
	if e.Config != config || e.Scheme != scheme.Scheme || e.CRDInstallOptions.Scheme != scheme.Scheme {
		t.Error("Config or Scheme is not set")
	}
	if len(e.CRDs) != 1 || e.CRDs[0].Name != "stores.example.com" || e.CRDs[0].UID == "" {
		t.Errorf("CRDs are %v, want the installed definition", e.CRDs)
	}
	if got := e.CRDInstallOptions.Paths; len(got) != 1 || got[0] != "testdata/crd" {
		t.Errorf("CRDInstallOptions.Paths is %q", got)
	}
}

// A second Start keeps the cluster; Stop ends it, and further calls do nothing. Then Start begins
// with an empty cluster.
func TestStartAndStopAgain(t *testing.T) {
	e := &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}}
	testcheck.NoError(t, e.Stop())
	config := start(t, e)
	_, err := storesOf(t, config).Create(t.Context(), newStore("photos"), metav1.CreateOptions{})
	testcheck.NoError(t, err)

	config, err = e.Start()
	testcheck.NoError(t, err)
	_, err = storesOf(t, config).Get(t.Context(), "photos", metav1.GetOptions{})
	testcheck.NoError(t, err)

	testcheck.NoError(t, e.Stop())
	testcheck.NoError(t, e.Stop())
	if e.Cluster() != nil {
		t.Error("the cluster still runs")
	}
	if _, err := storesOf(t, config).Create(t.Context(), newStore("videos"), metav1.CreateOptions{}); err == nil {
		t.Error("a stopped environment accepts a write")
	}

	config, err = e.Start()
	testcheck.NoError(t, err)
	list, err := storesOf(t, config).List(context.Background(), metav1.ListOptions{})
	testcheck.NoError(t, err)
	if len(list.Items) > 0 {
		t.Errorf("an environment that was started again has %d stores", len(list.Items))
	}
}

// Two environments are two clusters, as management and workload cluster of an operator.
func TestTwoEnvironments(t *testing.T) {
	first := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}})
	second := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crd"}})
	_, err := storesOf(t, first).Create(t.Context(), newStore("photos"), metav1.CreateOptions{})
	testcheck.NoError(t, err)
	list, err := storesOf(t, second).List(t.Context(), metav1.ListOptions{})
	testcheck.NoError(t, err)
	if len(list.Items) > 0 {
		t.Error("a store of one environment is in the other")
	}
}
