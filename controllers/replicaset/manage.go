package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/workload"
)

// burst is the number of pods that one sync creates or deletes.
//
// Upstream: pkg/controller/replicaset BurstReplicas (v1.36).
const burst = 500

// manage creates the pods that a set lacks, or deletes those that it has too many.
//
// Upstream: pkg/controller/replicaset ReplicaSetController.manageReplicas (v1.36).
func (c *controller) manage(ctx context.Context, set *appsv1.ReplicaSet, active []*corev1.Pod) error {
	excess := len(active) - int(*set.Spec.Replicas)
	if excess < 0 {
		_, err := workload.SlowStart(min(-excess, burst), func() error {
			return c.control.Create(ctx, set, workload.NewPod(&set.Spec.Template, set, c.kind))
		})
		return err
	}
	if excess == 0 {
		return nil
	}
	var first error
	for _, pod := range toDelete(active, c.related(set), min(excess, burst), c.cfg.Process.Now()) {
		if err := c.control.Delete(ctx, set, pod); err != nil && first == nil {
			first = err
		}
	}
	return first
}
