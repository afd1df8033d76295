package simtest_test

import (
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/simtest"
)

// The README shows this test; TestReadmeShowsTestedCode compares the two.
func TestClaimBindsAndPodRuns(t *testing.T) {
	c := simtest.Start(t, cluster.Config{Nodes: 2})
	simtest.Apply(t, c, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`)
	simtest.WaitFor(t, c, "pods", "default", "web", "condition=Ready")
}
