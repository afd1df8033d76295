package cluster_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// bothHosts are a live and a stepped world.
var bothHosts = map[string]*sim.SteppedConfig{"live": nil, "stepped": {}}

// onBothHosts runs a test in a live and in a stepped world.
func onBothHosts(t *testing.T, cfg cluster.Config, test func(t *testing.T, c *cluster.Cluster)) {
	t.Parallel()
	for name, stepped := range bothHosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := cfg
			of.Devices, of.Stepped = cluster.Array, stepped
			test(t, start(t, of))
		})
	}
}

// runPod creates a pod on a node and waits until it runs.
func runPod(t *testing.T, c *cluster.Cluster, name, node string, claims ...string) {
	t.Helper()
	pod := cluster.NewPod(name, claims...)
	pod.Spec.NodeName = node
	must(t)(c.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}))
	testcheck.NoError(t, c.WaitForPod(limit(t), "default", name, corev1.PodRunning))
}

// limit returns a context for a wait in a live world.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// acted returns the records of a process from an index on.
func acted(c *cluster.Cluster, process string, from int) []trace.Record {
	return slices.DeleteFunc(slices.Clone(c.Trace().Records()[from:]), func(r trace.Record) bool {
		return trace.Process(r.Task) != process
	})
}

// TestStoppedController: a controller that is stopped does nothing, and continues where it was.
func TestStoppedController(t *testing.T) {
	onBothHosts(t, cluster.Config{}, func(t *testing.T, c *cluster.Cluster) {
		testcheck.NoError(t, c.Stop("provisioner"), c.Stop("provisioner"))
		at := len(c.Trace().Records())
		must(t)(c.Client().CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
		runPod(t, c, "other", "node-1")
		if did := acted(c, "provisioner", at); len(did) > 0 {
			t.Errorf("a stopped component acts: %v", did)
		}
		testcheck.Equal(t, "degraded", true, c.Degraded())
		testcheck.Equal(t, "injected", false, c.Host().Inject("stop provisioner"))
		testcheck.NoError(t, c.Resume("provisioner"), c.Resume("provisioner"))
		testcheck.NoError(t, c.WaitForClaim(limit(t), "default", "data", corev1.ClaimBound))
		testcheck.Equal(t, "degraded", false, c.Degraded())
		for _, err := range []error{c.Stop("x"), c.Resume("x"), c.Crash("x"), c.PartitionNode("x"), c.RestoreNode("x")} {
			if !errors.Is(err, cluster.ErrUnknownComponent) {
				t.Errorf("unknown component: %v", err)
			}
		}
	})
}

// TestStoppedKubelet: the mounts of a node stay while its kubelet is down. A kubelet that starts again
// knows them, and ends the pods that were deleted meanwhile.
func TestStoppedKubelet(t *testing.T) {
	onBothHosts(t, cluster.Config{}, func(t *testing.T, c *cluster.Cluster) {
		ctx, core := t.Context(), c.Client().CoreV1()
		for _, claim := range []string{"data", "more"} {
			must(t)(core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim(claim, "64Mi"), metav1.CreateOptions{}))
		}
		runPod(t, c, "ends", "node-1", "data")
		runPod(t, c, "stays", "node-1", "more")
		testcheck.NoError(t, c.WriteFile("default", "ends", "data", "file", []byte("written")))
		testcheck.NoError(t, c.WaitForRest(limit(t)))
		testcheck.NoError(t, c.Stop("kubelet(node-1)"))
		at := len(c.Trace().Records())
		testcheck.NoError(t, core.Pods("default").Delete(ctx, "ends", metav1.DeleteOptions{}))
		runPod(t, c, "other", "node-2")
		content, err := c.ReadFile("default", "ends", "data", "file")
		testcheck.Equal(t, "content", "written", string(content))
		pod := testcheck.Must(core.Pods("default").Get(ctx, "ends", metav1.GetOptions{}))
		if err != nil || pod.DeletionTimestamp == nil || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("after the deletion: %v, %v", pod.Status, err)
		}
		if did := acted(c, "kubelet(node-1)", at); len(did) > 0 {
			t.Errorf("a stopped kubelet acts: %v", did)
		}
		again := len(c.Trace().Records())
		testcheck.NoError(t, c.Resume("kubelet(node-1)"))
		testcheck.NoError(t, c.WaitForGone(limit(t), "pods", "default", "ends"))
		testcheck.NoError(t, core.PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{}))
		testcheck.NoError(t, c.WaitForGone(limit(t), "persistentvolumeclaims", "default", "data"))
		testcheck.NoError(t, c.WaitForRest(limit(t)))
		testcheck.NoError(t, c.WriteFile("default", "stays", "more", "file", nil))
		if _, err := c.ReadFile("default", "ends", "data", "file"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file of a pod that has ended: %v", err)
		}
		for _, r := range acted(c, "kubelet(node-1)", again) {
			if strings.HasSuffix(r.Verb, "NodeUnpublishVolume") && strings.Contains(r.Object, podUID(c, "stays")) {
				t.Errorf("a volume in use is unmounted: %v", r)
			}
		}
	})
}

func podUID(c *cluster.Cluster, name string) string {
	obj, _ := c.Server().Get("pods", "default", name)
	return string(obj.GetUID())
}

// TestPartitionedNode: without Leases a node is NotReady at once, and Ready again when the partition ends.
func TestPartitionedNode(t *testing.T) {
	onBothHosts(t, cluster.Config{}, func(t *testing.T, c *cluster.Cluster) {
		testcheck.Equal(t, "injected", true, c.Host().Inject("partition node-1"))
		testcheck.NoError(t, c.WaitFor(limit(t), "nodes", "", "node-1", "condition=Ready=Unknown"))
		testcheck.NoError(t, c.Resume("kubelet(node-1)")) // the kubelet of a partitioned node stays away
		testcheck.Equal(t, "injected", false, c.Host().Inject("start kubelet(node-1)"))
		testcheck.Equal(t, "repaired", true, c.Repair())
		testcheck.NoError(t, c.WaitFor(limit(t), "nodes", "", "node-1", "condition=Ready"))
		runPod(t, c, "web", "node-1")
		var events []string
		for _, r := range c.Trace().Records() {
			if r.Kind == trace.KindEvent {
				events = append(events, r.Verb+" "+r.Object)
			}
		}
		testcheck.Equal(t, "events", "partition node-1, restore node-1", strings.Join(events, ", "))
	})
}

// TestEventsOfALiveWorld: what only a stepped world supports is no event of a live one.
func TestEventsOfALiveWorld(t *testing.T) {
	t.Parallel()
	c := start(t, cluster.Config{Devices: cluster.Array, Nodes: 1})
	kinds := map[string]bool{}
	for _, event := range c.Host().Events() {
		kinds[strings.Fields(event)[0]] = true
	}
	testcheck.Equal(t, "kinds", map[string]bool{"crash": true, "stop": true, "partition": true}, kinds)
	for _, err := range []error{c.Reboot("node-1"), c.Replicate("pvcontroller")} {
		if err == nil || !strings.Contains(err.Error(), "only a stepped one supports this") {
			t.Errorf("error: %v", err)
		}
	}
	testcheck.Equal(t, "injected", true, c.Host().Inject("stop driver(node-1)"))
	testcheck.Equal(t, "events", true, slices.Contains(c.Host().Events(), "start driver(node-1)"))
	testcheck.Equal(t, "repaired", true, c.Repair())
}

// TestCrashesOfALiveWorld: volumes live their lives while each component is killed, again and again.
func TestCrashesOfALiveWorld(t *testing.T) {
	t.Parallel()
	c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Array}))
	defer func() { testcheck.NoError(t, c.Close()) }()
	ended := make(chan struct{})
	c.User("user", func(ctx context.Context) error {
		defer close(ended)
		for range 3 {
			if err := errors.Join(lifecycle(ctx, c), c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data")); err != nil {
				return err
			}
			for _, node := range []string{"node-1", "node-2"} {
				patch := []byte(`{"spec":{"unschedulable":false}}`)
				if _, err := c.Client().CoreV1().Nodes().Patch(ctx, node, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	testcheck.NoError(t, c.Start(limit(t)))
	var crashes sync.WaitGroup
	killed := 0
	crashes.Go(func() {
		for {
			for _, name := range c.Components() {
				select {
				case <-ended:
					return
				default:
					testcheck.NoError(t, c.Crash(name))
					killed++
				}
			}
		}
	})
	testcheck.NoError(t, c.Run(limit(t)))
	crashes.Wait()
	testcheck.NoError(t, c.WaitForRest(limit(t)))
	testcheck.Equal(t, "leaks", "", strings.Join(testcheck.Must(c.Leaks()), "\n"))
	t.Logf("%d crashes", killed)
}
