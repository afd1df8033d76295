package localpath_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/examples/localpath"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
  storageClassName: local-path
`

// pod returns the manifest of a pod that executes a command with the claim.
func pod(name, command string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  restartPolicy: Never
  containers: [{name: main, image: busybox, command: [sh, -c, %q], volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`, name, command)
}

// look is a pod that lists the volumes of a node.
const look = `
apiVersion: v1
kind: Pod
metadata: {name: look-NODE, namespace: default}
spec:
  nodeName: NODE
  restartPolicy: Never
  containers: [{name: main, image: busybox, command: [sh, -c, "ls -A /all"], volumeMounts: [{name: all, mountPath: /all}]}]
  volumes: [{name: all, hostPath: {path: ` + localpath.Root + `, type: DirectoryOrCreate}}]
`

// volumes returns the names of the directories of a node.
func volumes(ctx context.Context, c *cluster.Cluster, node string) (string, error) {
	err := c.Apply(ctx, strings.ReplaceAll(look, "NODE", node))
	if err != nil {
		return "", err
	}
	if err := c.WaitForPod(ctx, "default", "look-"+node, corev1.PodSucceeded); err != nil {
		return "", err
	}
	return c.Logs("default", "look-"+node, "")
}

// alice is a user: one pod of a claim writes, another one reads, and the claim is deleted.
func alice(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Apply(ctx, localpath.Manifest+"---"+claim); err != nil {
		return err
	}
	var node string
	for _, p := range []struct{ name, command string }{{"first", "echo kept > /data/f"}, {"second", "cat /data/f"}} {
		if err := c.Apply(ctx, pod(p.name, p.command)); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", p.name, corev1.PodSucceeded); err != nil {
			return err
		}
		is, err := c.Client().CoreV1().Pods("default").Get(ctx, p.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node != "" && is.Spec.NodeName != node {
			return fmt.Errorf("the second pod is on %s, the directory on %s", is.Spec.NodeName, node)
		}
		node = is.Spec.NodeName
	}
	if log, err := c.Logs("default", "second", ""); err != nil || log != "kept\n" {
		return fmt.Errorf("the second pod reads %q, %w", log, err)
	}
	for _, name := range []string{"first", "second"} {
		if err := c.Client().CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	bound, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.WaitForGone(ctx, "persistentvolumes", "", bound.Spec.VolumeName); err != nil {
		return err
	}
	left, err := volumes(ctx, c, node)
	if err == nil && left != "" {
		err = fmt.Errorf("directories are left on %s: %s", node, left)
	}
	return err
}

// TestLifeOfAVolume has directories made and removed by pods, in both hosts, for both kinds of PersistentVolumes.
func TestLifeOfAVolume(t *testing.T) {
	for name, stepped := range map[string]*sim.SteppedConfig{"live": nil, "stepped": {}} {
		for _, kind := range []localpath.Kind{localpath.Local, localpath.HostPath} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				c := testcheck.Must(cluster.New(cluster.Config{
					Nodes: 2, Devices: cluster.Array, Containers: cluster.ShellContainers, Stepped: stepped,
					Extra: []cluster.Component{localpath.Component(kind)},
				}))
				t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
				testcheck.NoError(t, c.Start(t.Context()), alice(t.Context(), c), c.WaitForRest(t.Context()))
				pods := testcheck.Must(c.Client().CoreV1().Pods(localpath.Namespace).List(t.Context(), metav1.ListOptions{}))
				testcheck.Equal(t, "helpers", 0, len(pods.Items))
			})
		}
	}
}

// TestDeletedMeanwhile deletes a claim while the helper makes its directory, which is removed again.
func TestDeletedMeanwhile(t *testing.T) {
	ctx := t.Context()
	c := testcheck.Must(cluster.New(cluster.Config{
		Nodes: 1, Devices: cluster.Array, Containers: cluster.ShellContainers, Stepped: &sim.SteppedConfig{},
		Extra: []cluster.Component{localpath.Component(localpath.Local)},
	}))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(ctx), c.Apply(ctx, localpath.Manifest+"---"+claim+"---"+pod("web", "sleep 1d")))
	helpers := func() int {
		return len(slices.DeleteFunc(c.Server().List("pods"), func(p fake.Object) bool { return p.GetNamespace() != localpath.Namespace }))
	}
	testcheck.NoError(t, c.Wait(ctx, "a helper", func() bool { return helpers() > 0 }))
	zero := int64(0)
	testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: &zero}),
		c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{}), c.Run(ctx))
	testcheck.Equal(t, "helpers", 0, helpers())
	testcheck.Equal(t, "directories", "", testcheck.Must(volumes(ctx, c, "node-1")))
}

// TestInAnyOrder searches for a schedule, also with crashes of the provisioner, in which a directory is lost or left.
func TestInAnyOrder(t *testing.T) {
	for _, kind := range []localpath.Kind{localpath.Local, localpath.HostPath} {
		s := testcheck.Must(scenario.Parse(string(kind), "containers: shell\nfaults: crash(local-path, 1)\nuser alice\n"))
		s.Extra = []cluster.Component{localpath.Component(kind)}
		s.Users[0].Script = alice
		if r := testcheck.Must(explore.Search(t.Context(), s, explore.Config{Count: 40})); r.Failure != nil {
			t.Errorf("%s: %v\n%s", kind, r.Failure, scenario.Story(r.Failure.Scenario, r.Failure.Result))
		}
	}
}
