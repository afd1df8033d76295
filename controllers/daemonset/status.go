package daemonset

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/internal/workload"
)

// status returns the status of a set. Of several pods of a node the oldest counts.
//
// Upstream: pkg/controller/daemon DaemonSetsController.updateDaemonSetStatus (v1.36).
func (s *state) status() appsv1.DaemonSetStatus {
	status := *s.set.Status.DeepCopy()
	status.CurrentNumberScheduled, status.NumberMisscheduled, status.NumberReady = 0, 0, 0
	status.UpdatedNumberScheduled, status.NumberAvailable = 0, 0
	status.DesiredNumberScheduled = int32(s.selected) //nolint:gosec // they fit into memory
	for _, node := range s.nodes {
		pods := slices.Clone(s.pods[node.Name])
		switch fits := s.on.of(node) == fit; {
		case len(pods) == 0:
			continue
		case !fits:
			status.NumberMisscheduled++
			continue
		}
		status.CurrentNumberScheduled++
		slices.SortStableFunc(pods, older)
		if workload.Ready(pods[0]) != nil {
			status.NumberReady++
			if s.isAvailable(pods[0]) {
				status.NumberAvailable++
			}
		}
		if isUpdated(s.set, pods[0], s.hash) {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	return status
}

// writeStatus writes the status of a set if it has changed. observed says that the set was acted on in
// its present generation. The set is synced again when its next pod becomes available.
//
// Differs: upstream repeats a write that failed with the set's last version. Here it is retried as
// any other failure.
//
// Upstream: pkg/controller/daemon DaemonSetsController.updateDaemonSetStatus, storeDaemonSetStatus
// (v1.36).
func (c *controller) writeStatus(
	ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, hash string, observed bool,
) error {
	s, err := c.state(ctx, set, selector, hash)
	if err != nil {
		return err
	}
	status := s.status()
	if !equality.Semantic.DeepEqual(status, set.Status) || set.Status.ObservedGeneration < set.Generation {
		changed := set.DeepCopy()
		changed.Status = status
		if observed {
			changed.Status.ObservedGeneration = set.Generation
		}
		stored, err := c.client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		c.written.Add(set, wroteSet, stored)
	}
	if seconds := set.Spec.MinReadySeconds; seconds > 0 {
		var next time.Duration
		for _, node := range s.nodes {
			if d := workload.NextAvailable(s.pods[node.Name], seconds, s.now); d > 0 && (next == 0 || d < next) {
				next = d
			}
		}
		if next > 0 {
			c.queue.AddAfter(workload.Key(set), next)
		}
	}
	return nil
}
