package daemonset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/workload"
)

// hashLabel is the label of a pod, and of its ControllerRevision, with the hash of the template.
const hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey

// revisions returns the revisions of a set, by number. It adopts orphans and releases those that the
// set does not select.
//
// Upstream: pkg/controller/daemon DaemonSetsController.controlledHistories (v1.36).
func (c *controller) revisions(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	all, err := c.history.ControllerRevisions(set.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	claims := workload.Claims[*appsv1.ControllerRevision]{
		Owner: set, Kind: setKind, What: "ControllerRevision", Fresh: c.fresh(set),
		Match: func(r *appsv1.ControllerRevision) bool { return selector.Matches(labels.Set(r.Labels)) },
		Patch: func(ctx context.Context, r *appsv1.ControllerRevision, patch []byte) error {
			_, err := c.client.AppsV1().ControllerRevisions(set.Namespace).
				Patch(ctx, r.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Name, b.Name))
	})
	return claims.Claim(ctx, all)
}

// ensureRevision returns the revision of a set's template, which exists then and has the highest
// number, and the older ones.
//
// Upstream: pkg/controller/daemon DaemonSetsController.constructHistory (v1.36).
func (c *controller) ensureRevision(
	ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector,
) (current *appsv1.ControllerRevision, old []*appsv1.ControllerRevision, err error) {
	all, err := c.revisions(ctx, set, selector)
	if err != nil {
		return nil, nil, err
	}
	data, err := workload.TemplatePatch(&set.Spec.Template)
	if err != nil {
		return nil, nil, err
	}
	var equal []*appsv1.ControllerRevision
	next := int64(1)
	for _, r := range all {
		if r, err = c.withHash(ctx, r); err != nil {
			return nil, nil, err
		}
		if bytes.Equal(data, r.Data.Raw) {
			equal = append(equal, r)
		} else {
			old, next = append(old, r), max(next, r.Revision+1)
		}
	}
	if len(equal) == 0 {
		current, err = c.createRevision(ctx, set, data, next)
		return current, old, err
	}
	current = equal[len(equal)-1]
	if err := c.removeDuplicates(ctx, set, selector, equal); err != nil {
		return nil, nil, err
	}
	if current.Revision < next {
		current = current.DeepCopy()
		current.Revision = next
		current, err = c.client.AppsV1().ControllerRevisions(set.Namespace).Update(ctx, current, metav1.UpdateOptions{})
	}
	return current, old, err
}

// withHash returns a revision that has the label with the hash of its template, which old ones lack.
func (c *controller) withHash(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	if _, labelled := r.Labels[hashLabel]; labelled {
		return r, nil
	}
	r = r.DeepCopy()
	metav1.SetMetaDataLabel(&r.ObjectMeta, hashLabel, r.Name)
	return c.client.AppsV1().ControllerRevisions(r.Namespace).Update(ctx, r, metav1.UpdateOptions{})
}

// createRevision creates the revision of a set's template. If its name is taken by another template,
// it counts a collision, and the next sync tries another name.
//
// Upstream: pkg/controller/daemon DaemonSetsController.snapshot (v1.36).
func (c *controller) createRevision(
	ctx context.Context, set *appsv1.DaemonSet, data []byte, number int64,
) (*appsv1.ControllerRevision, error) {
	hash := workload.TemplateHash(&set.Spec.Template, set.Status.CollisionCount)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + hash, Namespace: set.Namespace,
			Labels: map[string]string{}, Annotations: maps.Clone(set.Annotations),
			OwnerReferences: []metav1.OwnerReference{workload.ControllerRef(set, setKind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	maps.Copy(r.Labels, set.Spec.Template.Labels)
	r.Labels[hashLabel] = hash
	client := c.client.AppsV1().ControllerRevisions(set.Namespace)
	created, taken := client.Create(ctx, r, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(taken) {
		return created, taken
	}
	existing, err := client.Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if bytes.Equal(data, existing.Data.Raw) {
		return existing, nil
	}
	fresh, err := c.client.AppsV1().DaemonSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(fresh.Status.CollisionCount, set.Status.CollisionCount) {
		return nil, fmt.Errorf("found a stale collision count of DaemonSet %q while processing; will retry until it is updated", set.Name)
	}
	count := int32(1)
	if fresh.Status.CollisionCount != nil {
		count += *fresh.Status.CollisionCount
	}
	fresh.Status.CollisionCount = &count
	if fresh, err = c.client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, fresh, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	c.written.Add(set, wroteSet, fresh)
	return nil, taken
}

// removeDuplicates deletes all but the last of several revisions with the same template. First their
// pods get the hash of the last one.
//
// Upstream: pkg/controller/daemon DaemonSetsController.dedupCurHistories (v1.36).
func (c *controller) removeDuplicates(
	ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, equal []*appsv1.ControllerRevision,
) error {
	duplicates, hash := equal[:len(equal)-1], equal[len(equal)-1].Labels[hashLabel]
	if len(duplicates) == 0 {
		return nil
	}
	pods, err := c.members(ctx, set, selector)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{hashLabel: hash}}})
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.Labels[hashLabel] == hash {
			continue
		}
		if _, err := c.client.CoreV1().Pods(set.Namespace).
			Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return c.deleteRevisions(ctx, duplicates)
}

// truncate deletes the oldest revisions that no pod has, beyond the limit.
//
// Upstream: pkg/controller/daemon DaemonSetsController.cleanupHistory (v1.36).
func (c *controller) truncate(
	ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, old []*appsv1.ControllerRevision,
) error {
	pods, err := c.members(ctx, set, selector)
	if err != nil {
		return err
	}
	return c.deleteRevisions(ctx, surplus(set, pods, old))
}

// surplus returns the revisions to delete, of those that a set does not have any more.
func surplus(set *appsv1.DaemonSet, pods []*corev1.Pod, old []*appsv1.ControllerRevision) []*appsv1.ControllerRevision {
	live := map[string]bool{}
	for _, pod := range pods {
		if hash := pod.Labels[hashLabel]; hash != "" {
			live[hash] = true
		}
	}
	excess := max(0, len(old)-int(*set.Spec.RevisionHistoryLimit))
	unused := slices.DeleteFunc(slices.Clone(old), func(r *appsv1.ControllerRevision) bool { return live[r.Labels[hashLabel]] })
	return unused[:min(excess, len(unused))]
}

// deleteRevisions deletes revisions until one fails.
//
// Differs: the UID is a precondition. One that is gone needs nothing.
func (c *controller) deleteRevisions(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	for _, r := range revisions {
		err := c.client.AppsV1().ControllerRevisions(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(r.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
