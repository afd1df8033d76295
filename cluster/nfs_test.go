package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// sharedVolume is an export that many pods use at once.
const sharedVolume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: shared}
spec:
  storageClassName: ""
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  mountOptions: [nfsvers=4.1]
  nfs: {server: files, path: /shared}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec:
  storageClassName: ""
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
`

// nfsPod returns a pod of a node with one volume.
func nfsPod(name, node, volume string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  volumes: [{name: data, %s}]
  containers: [{name: main, image: image, volumeMounts: [{name: data, mountPath: /data}]}]
`, name, node, volume)
}

// TestSharedVolume has pods of two nodes read and write one export at once: by its claim, and by a
// read-only volume of the pod. Nothing is attached.
func TestSharedVolume(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Devices: cluster.Array}},
		{"loop devices", cluster.Config{Devices: cluster.Loop}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			world.cfg.Nodes = 2
			c := start(t, world.cfg)
			exports := c.NFSExports()
			testcheck.NoError(t, exports.FS.MkdirAll(exports.Path("/files/shared")),
				exports.FS.WriteFile(exports.Path("/files/shared/motd"), []byte("hello")),
				c.Apply(ctx, sharedVolume+
					nfsPod("a", "node-1", "persistentVolumeClaim: {claimName: shared}")+
					nfsPod("b", "node-2", "persistentVolumeClaim: {claimName: shared}")+
					nfsPod("c", "node-2", "nfs: {server: files, path: /shared, readOnly: true}")))
			for _, pod := range []string{"a", "b", "c"} {
				testcheck.NoError(t, c.WaitForPod(ctx, "default", pod, corev1.PodRunning))
			}
			testcheck.NoError(t, c.WriteFile("default", "a", "data", "from-a", []byte("a")),
				c.WriteFile("default", "b", "data", "from-b", []byte("b")))
			for _, pod := range []string{"a", "b", "c"} {
				for name, want := range map[string]string{"motd": "hello", "from-a": "a", "from-b": "b"} {
					if got, err := c.ReadFile("default", pod, "data", name); err != nil || string(got) != want {
						t.Errorf("pod %s: file %s: %q, %v", pod, name, got, err)
					}
				}
			}
			if err := c.WriteFile("default", "c", "data", "from-c", nil); err == nil {
				t.Error("a pod has written to a read-only volume")
			}
			if world.cfg.Stepped != nil { // a restarted kubelet has no other source than the disk
				testcheck.NoError(t, c.Stop("kubelet(node-2)"))
			}
			for _, pod := range []string{"a", "b", "c"} {
				testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, pod, metav1.DeleteOptions{}))
			}
			c.Repair()
			for _, pod := range []string{"a", "b", "c"} {
				testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", pod))
			}
			testcheck.NoError(t, c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "shared", metav1.DeleteOptions{}),
				c.WaitForGone(ctx, "persistentvolumeclaims", "default", "shared"),
				c.Client().CoreV1().PersistentVolumes().Delete(ctx, "shared", metav1.DeleteOptions{}),
				c.WaitForGone(ctx, "persistentvolumes", "", "shared"), c.WaitForRest(ctx))
			names, err := exports.FS.ReadDir(exports.Path("/files/shared"))
			if err != nil || strings.Join(names, " ") != "from-a from-b motd" {
				t.Errorf("after the pods the export has %v, %v", names, err)
			}
			if leaks, err := c.Leaks(); err != nil || len(leaks) > 0 {
				t.Errorf("left: %v, %v", leaks, err)
			}
			if all := c.Server().List("volumeattachments"); len(all) > 0 {
				t.Errorf("attachments %v", all)
			}
		})
	}
}

// TestNFSServerDown has a pod wait for a server that does not answer. Other pods of the node do not
// wait.
func TestNFSServerDown(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	c.StopNFSServer("slow")
	begin := c.Host().Now()
	testcheck.NoError(t, c.Apply(ctx, nfsPod("a", "node-1", "nfs: {server: slow, path: /a}")+
		nfsPod("b", "node-1", "nfs: {server: fast, path: /b}")+
		nfsPod("c", "node-1", "emptyDir: {}")))
	for _, pod := range []string{"b", "c"} {
		testcheck.NoError(t, c.WaitForPod(ctx, "default", pod, corev1.PodRunning))
	}
	if took := c.Host().Now().Sub(begin); took > 2*time.Second {
		t.Errorf("the other pods are running after %v", took)
	}
	const text = "MountVolume.SetUp failed for volume \"data\" : mount failed: exit status 32\nMounting command: mount\n"
	testcheck.NoError(t, c.Wait(ctx, "the event", func() bool { return len(mountEvents(c)["a"]) > 0 }))
	if got := mountEvents(c)["a"][0]; !strings.HasPrefix(got, text) || !strings.HasSuffix(got, "Output: mount.nfs: Connection timed out\n") {
		t.Errorf("event %q", got)
	}
	if !c.Degraded() || !c.Repair() || c.Degraded() {
		t.Error("the server was not repaired")
	}
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "a", corev1.PodRunning))
	c.StopNFSServer("slow")
	begin = c.Host().Now()
	testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}),
		c.WaitForGone(ctx, "pods", "default", "a"))
	if took := c.Host().Now().Sub(begin); took < time.Minute || took > time.Minute+time.Second {
		t.Errorf("the pod is gone after %v, want the forced unmount after 1m", took)
	}
}

func TestRealNFSNeedsDevices(t *testing.T) {
	_, err := cluster.New(cluster.Config{Devices: cluster.Array, RealNFS: true})
	if err == nil || !strings.Contains(err.Error(), "real NFS servers are not supported") {
		t.Errorf("error %v", err)
	}
}
