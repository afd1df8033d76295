package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

const localClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`

// delayedVolume returns a RAM disk of a node as a PersistentVolume of class local.
func delayedVolume(name, node, size string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  storageClassName: local
  capacity: {storage: %s}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {path: /mnt/disks/%s}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]
`, name, size, name, node)
}

// delayedUser returns a claim of class local, and a pod that uses it.
func delayedUser(name, size string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: %[2]s}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  volumes: [{name: data, persistentVolumeClaim: {claimName: %[1]s}}]
  containers:
  - name: main
    image: image
    volumeMounts: [{mountPath: /data, name: data}]
`, name, size)
}

// placedOn returns the node of a pod and the volume of its claim.
func placedOn(t *testing.T, c *cluster.Cluster, name string) (node, volume string) {
	t.Helper()
	pod, err := c.Client().CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	testcheck.NoError(t, err)
	claim, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(context.Background(), name, metav1.GetOptions{})
	testcheck.NoError(t, err)
	return pod.Spec.NodeName, claim.Spec.VolumeName
}

// TestDelayedClaimsGetLocalVolumes has pods find the nodes of the smallest volumes that fit, and one
// wait until a volume appears.
func TestDelayedClaimsGetLocalVolumes(t *testing.T) {
	c, ctx := start(t, stepped(sim.FIFO{})), t.Context()
	testcheck.NoError(t, c.Apply(ctx, localClass))
	for name, node := range map[string]string{"big": "node-1", "small": "node-2", "late": "node-2"} {
		testcheck.NoError(t, c.AddDisk(node, cluster.Disk{Path: "/mnt/disks/" + name, SizeBytes: 1 << 20}))
	}
	testcheck.NoError(t, c.Apply(ctx, delayedVolume("big", "node-1", "8Gi")), c.Apply(ctx, delayedVolume("small", "node-2", "2Gi")))
	testcheck.NoError(t, c.Run(ctx), c.Apply(ctx, delayedUser("first", "4Gi")), c.Run(ctx))
	if node, volume := placedOn(t, c, "first"); node != "node-1" || volume != "big" {
		t.Errorf("the first pod is on %q with %q", node, volume)
	}
	testcheck.NoError(t, c.Apply(ctx, delayedUser("second", "1Gi")), c.Run(ctx))
	if node, volume := placedOn(t, c, "second"); node != "node-2" || volume != "small" {
		t.Errorf("the second pod is on %q with %q", node, volume)
	}
	testcheck.NoError(t, c.Apply(ctx, delayedUser("third", "1Gi")), c.Run(ctx))
	pod, err := c.Client().CoreV1().Pods("default").Get(ctx, "third", metav1.GetOptions{})
	testcheck.NoError(t, err)
	want := "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: " +
		"0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Message == want }) {
		t.Errorf("conditions of the third pod: %v, want %q", pod.Status.Conditions, want)
	}
	testcheck.NoError(t, c.Apply(ctx, delayedVolume("late", "node-2", "2Gi")), c.Run(ctx))
	if node, volume := placedOn(t, c, "third"); node != "node-2" || volume != "late" {
		t.Errorf("the third pod is on %q with %q", node, volume)
	}
	for _, name := range []string{"first", "second", "third"} {
		testcheck.NoError(t, c.WaitForPod(ctx, "default", name, corev1.PodRunning))
	}
}

// TestLocalVolumesUnderContention has three pods compete for two volumes, in other orders of events
// and with crashes of the scheduler and the PersistentVolume controller. Two of them get one each.
func TestLocalVolumesUnderContention(t *testing.T) {
	for seed := uint64(20); seed < 36; seed++ {
		c, ctx := start(t, stepped(sim.NewSeeded(seed))), t.Context()
		testcheck.NoError(t, c.Apply(ctx, localClass))
		for i, name := range []string{"a", "b"} {
			node := fmt.Sprint("node-", i+1)
			testcheck.NoError(t, c.AddDisk(node, cluster.Disk{Path: "/mnt/disks/" + name, SizeBytes: 1 << 20}),
				c.Apply(ctx, delayedVolume(name, node, "1Gi")))
		}
		for _, name := range []string{"p", "q", "r"} {
			testcheck.NoError(t, c.Apply(ctx, delayedUser(name, "1Gi")))
		}
		host := c.Host().(*sim.Stepped)
		for _, component := range []string{"scheduler", "pvcontroller"} {
			for range 10 + seed*3 {
				host.Step()
			}
			testcheck.NoError(t, c.Crash(component))
		}
		if err := c.Run(ctx); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c.Trace().Text())
		}
		var got []string
		for _, name := range []string{"p", "q", "r"} {
			if node, volume := placedOn(t, c, name); node != "" || volume != "" {
				got = append(got, volume+" on "+node)
			}
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != "a on node-1, b on node-2" {
			t.Fatalf("seed %d: %v\n%s", seed, got, tail(c.Trace().Text(), 60))
		}
	}
}
