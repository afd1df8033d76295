package cluster_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// TestReadOnlyMounts: a pod writes through the first container that may, and cannot write where all of
// them mount the volume read-only.
func TestReadOnlyMounts(t *testing.T) {
	const pod = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: fixed, emptyDir: {}}
  - {name: settings, configMap: {name: settings}}
  containers:
  - name: reader
    image: reader
    volumeMounts:
    - {name: shared, mountPath: /shared, readOnly: true}
    - {name: fixed, mountPath: /fixed, readOnly: true}
    - {name: settings, mountPath: /settings}
  - name: writer
    image: writer
    volumeMounts: [{name: shared, mountPath: /shared}]
`
	onBothHosts(t, cluster.Config{Nodes: 1}, func(t *testing.T, c *cluster.Cluster) {
		testcheck.NoError(t, c.Apply(t.Context(), pod), c.WaitForPod(limit(t), "default", "web", corev1.PodRunning),
			c.WriteFile("default", "web", "shared", "file", []byte("kept")))
		testcheck.Equal(t, "file", "kept", string(testcheck.Must(c.ReadFile("default", "web", "shared", "file"))))
		for _, volume := range []string{"fixed", "settings"} {
			if err := c.WriteFile("default", "web", volume, "file", nil); !errors.Is(err, nodefs.ErrReadOnly) {
				t.Errorf("volume %s: %v, want that it is read-only", volume, err)
			}
		}
		testcheck.Equal(t, "setting", "blue", string(testcheck.Must(c.ReadFile("default", "web", "settings", "color"))))
	})
}
