package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volsim/volsim/internal/workload"
)

// The caches that must have the controller's own writes. That of revisions need not: a revision is
// found again by its name.
const (
	wrotePod = iota
	wroteClaim
	wroteSet
)

// members returns the pods of a set, by name. It adopts orphans and releases pods that the set does
// not select.
//
// Upstream: pkg/controller/statefulset StatefulSetController.getPodsForStatefulSet (v1.36).
func (c *controller) members(
	ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector,
) ([]*corev1.Pod, error) {
	claims := workload.Claims[*corev1.Pod]{
		Owner: set, Kind: setKind, What: "Pod", Fresh: c.fresh(set),
		Match: func(pod *corev1.Pod) bool {
			parent, _ := splitName(pod.Name)
			return parent == set.Name && selector.Matches(labels.Set(pod.Labels))
		},
		Patch: workload.PatchPods(c.client, func(pod *corev1.Pod) { c.written.Add(set, wrotePod, pod) }),
	}
	return claims.Claim(ctx, workload.Pods(c.podIndex, set, true))
}

// fresh returns a function that reads a set from the server.
func (c *controller) fresh(set *appsv1.StatefulSet) func(ctx context.Context) (metav1.Object, error) {
	return func(ctx context.Context) (metav1.Object, error) {
		return c.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	}
}
