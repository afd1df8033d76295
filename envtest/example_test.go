package envtest_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/envtest"
)

func Example() {
	testEnv := &envtest.Environment{
		CRDDirectoryPaths:     []string{"testdata/crd"},
		ErrorIfCRDPathMissing: true,
	}
	cfg, err := testEnv.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer testEnv.Stop()

	ctx := context.Background()
	client, err := dynamic.NewForConfig(cfg) // or client.New of controller-runtime
	if err != nil {
		log.Fatal(err)
	}
	stores := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "stores"})
	store, err := stores.Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Store",
		"metadata": map[string]any{"name": "photos"}, "spec": map[string]any{"size": "1Gi"},
	}}, metav1.CreateOptions{})
	replicas, _, _ := unstructured.NestedInt64(store.Object, "spec", "replicas")
	fmt.Println(replicas, err)
	// Output: 1 <nil>
}

// A claim is provisioned and bound, and a pod runs with it. Envtest of controller-runtime has no
// controllers that do this.
func ExampleEnvironment_Cluster() {
	testEnv := &envtest.Environment{}
	cfg, err := testEnv.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer testEnv.Stop()

	ctx := context.Background()
	core := kubernetes.NewForConfigOrDie(cfg).CoreV1()
	core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	core.Pods("default").Create(ctx, cluster.NewPod("db", "data"), metav1.CreateOptions{})
	if err := testEnv.Cluster().WaitForPod(ctx, "default", "db", corev1.PodRunning); err != nil {
		log.Fatal(err)
	}
	claim, err := core.PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
	fmt.Println(claim.Status.Phase, err)
	// Output: Bound <nil>
}

// A user of its own, in memory and for other processes.
func ExampleEnvironment_AddUser() {
	testEnv := &envtest.Environment{}
	if _, err := testEnv.Start(); err != nil {
		log.Fatal(err)
	}
	defer testEnv.Stop()

	user, err := testEnv.AddUser(envtest.User{Name: "alice", Groups: []string{"viewers"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	kubernetes.NewForConfigOrDie(user.Config()) // for a client of this process
	kubeconfig, err := user.KubeConfig()        // for kubectl
	fmt.Println(len(kubeconfig) > 0, err)
	// Output: true <nil>
}
