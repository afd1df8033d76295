package localextender

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/apiserver"
	_ "github.com/volsim/volsim/fake/crd" // for the records of local storage
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// class has 60Mi on node-1 and 124Mi on node-2.
const class = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: localstorage.volsim.dev
volumeBindingMode: WaitForFirstConsumer
parameters: {nodes: '[{"node":"node-1","disks":["/dev/sdb"]},{"node":"node-2","disks":["/dev/sdb"]}]'}
`

// configuration has the path of a kubeconfig and the address of an extender.
const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: false}
extenders:
- {urlPrefix: %s, filterVerb: filter, prioritizeVerb: prioritize, weight: 1, nodeCacheCapable: true}
`

// user returns a claim and a pod that uses it.
func user(name, size string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: %[2]s}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  containers: [{name: main, image: image, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: %[1]s}}]
`, name, size)
}

// TestKubeScheduler has a claim that fits on one of two nodes, and one that fits nowhere until space becomes free. Local
// storage then changes the claim, so the scheduler tries again.
func TestKubeScheduler(t *testing.T) {
	c, ctx := simtest.Start(t, cluster.Config{Devices: cluster.Array, LocalStorage: true}), t.Context()
	testcheck.NoError(t, c.Stop("scheduler"),
		c.AddDisk("node-1", cluster.Disk{Path: "/dev/sdb", SizeBytes: 64 << 20, Block: true}),
		c.AddDisk("node-2", cluster.Disk{Path: "/dev/sdb", SizeBytes: 128 << 20, Block: true}))
	simtest.Apply(t, c, class)
	const records = "nodelocalstorages.localstorage.volsim.dev"
	for _, node := range []string{"node-1", "node-2"} {
		simtest.WaitFor(t, c, records, "", "fast."+node, "jsonpath={.status.phase}=Ready")
	}
	startKubeScheduler(t, c)

	simtest.Apply(t, c, user("first", "100Mi"))
	simtest.WaitFor(t, c, "pods", "default", "first", "condition=Ready")
	if node := pod(t, c, "first").Spec.NodeName; node != "node-2" {
		t.Errorf("first is on %s", node)
	}
	simtest.Apply(t, c, user("second", "100Mi"))
	simtest.WaitFor(t, c, "pods", "default", "second", "jsonpath={.status.conditions[0].message}=0/2 nodes are available: "+
		"1 node-1: 60Mi free in class fast, 100Mi requested, 1 node-2: 24Mi free in class fast, 100Mi requested. "+
		"no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")

	core := c.Client().CoreV1()
	testcheck.NoError(t, core.Pods("default").Delete(ctx, "first", metav1.DeleteOptions{}),
		core.PersistentVolumeClaims("default").Delete(ctx, "first", metav1.DeleteOptions{}))
	simtest.WaitFor(t, c, "pods", "default", "second", "condition=Ready")
	if node := pod(t, c, "second").Spec.NodeName; node != "node-2" {
		t.Errorf("second is on %s", node)
	}
}

// pod returns a pod.
func pod(t *testing.T, c *cluster.Cluster, name string) *corev1.Pod {
	t.Helper()
	p, err := c.Client().CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	testcheck.NoError(t, err)
	return p
}

// startKubeScheduler runs upstream's kube-scheduler until the test ends.
func startKubeScheduler(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	listener, err := apiserver.Listen(apiserver.ListenConfig{Handler: apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{
		Caller: func(*http.Request) sim.Caller { return c.Host().ExternalCaller() },
	})})
	testcheck.NoError(t, err)
	extender := httptest.NewServer(c.LocalStorageExtender())
	dir := t.TempDir()
	kubeconfig, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "scheduler.yaml")
	testcheck.NoError(t, clientcmd.WriteToFile(*listener.Kubeconfig("volsim"), kubeconfig),
		os.WriteFile(file, fmt.Appendf(nil, configuration, kubeconfig, extender.URL), 0o600))

	ctx, cancel := context.WithCancel(context.Background())
	opts := options.NewOptions()
	opts.ConfigFile, opts.SecureServing.BindPort = file, 0
	completed, scheduler, err := app.Setup(ctx, opts)
	testcheck.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, completed, scheduler) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "finished without leader elect") {
			t.Errorf("kube-scheduler: %v", err)
		}
		configz.Delete("componentconfig") // for another run in this process
		extender.Close()
		testcheck.NoError(t, listener.Close())
	})
}
