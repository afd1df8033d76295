package cluster_test

import (
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestPodsHaveTokens: with MountTokens a pod finds the token of its service account where clients look for
// it, also in a new namespace. Nothing of it is left.
func TestPodsHaveTokens(t *testing.T) {
	const at = "/var/run/secrets/kubernetes.io/serviceaccount"
	const pods = `
apiVersion: v1
kind: Namespace
metadata: {name: new}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: new}
spec: {containers: [{name: main, image: web}]}
`
	onBothHosts(t, cluster.Config{Nodes: 1, API: fake.Config{MountTokens: true}}, func(t *testing.T, c *cluster.Cluster) {
		testcheck.NoError(t, c.Apply(t.Context(), pods), c.WaitForPod(limit(t), "new", "web", corev1.PodRunning))
		dir, err := c.ContainerPath("new", "web", "main", at)
		testcheck.NoError(t, err)
		node := testcheck.Must(c.Machine("node-1"))
		for name, want := range map[string]func(content string) bool{
			"namespace": func(content string) bool { return content == "new" },
			"ca.crt":    func(content string) bool { return content != "" },
			"token":     func(content string) bool { return strings.Count(content, ".") == 2 },
		} {
			if content, err := node.FS.ReadFile(path.Join(dir, name)); err != nil || !want(string(content)) {
				t.Errorf("%s: %q, %v", name, content, err)
			}
		}
		testcheck.NoError(t, c.Client().CoreV1().Pods("new").Delete(t.Context(), "web", metav1.DeleteOptions{}),
			c.WaitForGone(limit(t), "pods", "new", "web"), c.WaitForRest(limit(t)))
		if left := testcheck.Must(c.Leaks()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
