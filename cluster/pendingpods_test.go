package cluster_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/workload"
)

// webOf are workloads of the pods "web". Their images are IMAGE.
var webOf = map[string]string{
	"StatefulSet": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec: {serviceName: web, replicas: 3, selector: {matchLabels: {app: web}}, template: TEMPLATE}`,
	"Deployment": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}, selector: {matchLabels: {app: web}}, template: TEMPLATE}`,
	"DaemonSet": `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, template: TEMPLATE}`,
}

// TestRestAwaitsRollouts: a world is not at rest between two pods of a set that grows or shrinks, or of a
// rollout.
func TestRestAwaitsRollouts(t *testing.T) {
	template := `{metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: web, image: IMAGE}]}}`
	for kind, manifest := range webOf {
		manifest = strings.ReplaceAll(manifest, "TEMPLATE", template)
		steps := []struct{ manifest, image string }{{manifest, "web:1"}, {manifest, "web:2"}}
		if strings.Contains(manifest, "replicas: 3") {
			steps = append(steps, steps[1], steps[1])
			steps[2].manifest = strings.ReplaceAll(manifest, "replicas: 3", "replicas: 0")
		}
		t.Run(kind, func(t *testing.T) {
			onBothHosts(t, cluster.Config{Nodes: 3}, func(t *testing.T, c *cluster.Cluster) {
				for i, s := range steps {
					testcheck.NoError(t, c.Apply(t.Context(), strings.ReplaceAll(s.manifest, "IMAGE", s.image)), c.WaitForRest(limit(t)))
					got, want := map[string]int{}, map[string]int{s.image: 3}
					if i == 2 {
						want = map[string]int{}
					}
					for _, obj := range c.Server().List("pods") {
						pod := obj.(*corev1.Pod)
						if workload.Ready(pod) == nil {
							t.Errorf("step %d: pod %s is not ready", i, pod.Name)
						}
						got[pod.Spec.Containers[0].Image]++
					}
					testcheck.Equal(t, "images of the pods", want, got)
				}
			})
		})
	}
}

// TestRestAwaitsJobs: a world is not at rest between two pods of a job, or before its end. One whose job is
// suspended is.
func TestRestAwaitsJobs(t *testing.T) {
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: load}
spec:
  completions: 3
  template:
    metadata: {annotations: {volsim.dev/exit-codes: "0"}}
    spec: {restartPolicy: Never, containers: [{name: load, image: load}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: later}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: load, image: load}]}}
`
	onBothHosts(t, cluster.Config{Nodes: 1}, func(t *testing.T, c *cluster.Cluster) {
		testcheck.NoError(t, c.Apply(t.Context(), job), c.WaitForRest(limit(t)))
		obj, _ := c.Server().Get("jobs", "default", "load")
		if end := workload.EndOf(obj.(*batchv1.Job)); end == nil || end.Type != batchv1.JobComplete {
			t.Errorf("the job has not ended: %+v", obj.(*batchv1.Job).Status)
		}
	})
}
