package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

func Example() {
	ctx := context.Background()
	c, err := cluster.New(cluster.Config{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	client := c.Client() // a kubernetes.Interface
	client.CoreV1().PersistentVolumeClaims("default").Create(ctx,
		cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	client.CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		log.Fatal(err)
	}
	c.WriteFile("default", "web", "data", "hello.txt", []byte("hello"))
	hello, err := c.ReadFile("default", "web", "data", "hello.txt")
	fmt.Printf("%s %v\n", hello, err)
	// Output: hello <nil>
}

// The same world, stepped under a chooser: the same seed gives the same trace.
func Example_stepped() {
	trace := func(seed uint64) string {
		c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(seed)}})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		c.User("user", func(ctx context.Context) error {
			claims := c.Client().CoreV1().PersistentVolumeClaims("default")
			if _, err := claims.Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
				return err
			}
			return c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound)
		})
		if err := c.Run(context.Background()); err != nil {
			log.Fatal(err)
		}
		return c.Trace().Text()
	}
	first, again, other := trace(7), trace(7), trace(8)
	fmt.Println(first == again, first == other)
	// Output: true false
}

// A wait that cannot end says why. In a stepped world it does so at once.
func ExampleCluster_WaitForPod() {
	ctx := context.Background()
	c, err := cluster.New(cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	claim := cluster.NewClaim("data", "64Mi")
	claim.Spec.StorageClassName = new(string)
	*claim.Spec.StorageClassName = "fast"
	client := c.Client().CoreV1()
	client.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	client.Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	fmt.Println(c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	// Output:
	// wait for pod default/web to be Running: no task can run: claim default/data: storage class fast not found
	//   state: Pending, PodScheduled=False Unschedulable
	//   event: FailedScheduling: 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found
}

// A manifest, and a wait with a condition of kubectl wait.
func ExampleCluster_Apply() {
	ctx := context.Background()
	c, err := cluster.New(cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.Apply(ctx, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: nginx}]}
`)
	if err == nil {
		err = c.WaitFor(ctx, "pods", "default", "web", "condition=Ready")
	}
	fmt.Println(err, c.Apply(ctx, "kind: Pot\napiVersion: v1"))
	// Output: <nil> apply: document 1 at line 1: no kind "Pot" in v1: not served by the API server
}

// An annotation says how the containers of a pod end: the first run with 1, the second with 0.
func Example_exitCodes() {
	ctx := context.Background()
	c, err := cluster.New(cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	pod := cluster.NewPod("backup")
	pod.Annotations = map[string]string{kubelet.ExitCodesAnnotation: "1,0"}
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	_, created := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err := errors.Join(created, c.Start(ctx), c.WaitForPod(ctx, "default", "backup", corev1.PodSucceeded)); err != nil {
		log.Fatal(err)
	}
	pod, err = c.Client().CoreV1().Pods("default").Get(ctx, "backup", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Status.Phase, "after", pod.Status.ContainerStatuses[0].RestartCount, "restart")
	// Output: Succeeded after 1 restart
}

// Dynamic local storage: a class names the empty disks of nodes, and a claim gets a logical volume on the node of
// its pod. The records of the volume groups are a custom resource.
func Example_localStorage() {
	ctx := context.Background()
	c, err := cluster.New(cluster.Config{Nodes: 1, LocalStorage: true, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = errors.Join(c.Start(ctx), c.AddDisk("node-1", cluster.Disk{Path: "/dev/sdb", SizeBytes: 64 << 20, Block: true}), c.Apply(ctx, `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: localstorage.volsim.dev
volumeBindingMode: WaitForFirstConsumer
parameters: {nodes: '[{"node": "node-1", "disks": ["/dev/sdb"]}]'}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 12Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`), c.WaitForPod(ctx, "default", "web", corev1.PodRunning), c.Run(ctx))
	if err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		log.Fatal(err)
	}
	records := client.Resource(schema.GroupVersionResource{Group: "localstorage.volsim.dev", Version: "v1alpha1", Resource: "nodelocalstorages"})
	record, err := records.Get(ctx, "fast.node-1", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	status := record.Object["status"].(map[string]any)
	fmt.Println(record.GetName(), status["phase"], status["free"], "of", status["capacity"])
	// Output: fast.node-1 Ready 48Mi of 60Mi
}
