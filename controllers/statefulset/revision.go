package statefulset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

// hashLabel is the label of a revision with the hash in its name.
//
// Upstream: pkg/controller/history ControllerRevisionHashLabel (v1.36).
const hashLabel = "controller.kubernetes.io/hash"

// prefixMax bounds the part of a revision's name that is the name of its set.
const prefixMax = 223

// revisions are the two revisions whose templates the pods of a set may have.
type revisions struct {
	current, update *appsv1.ControllerRevision
	collisions      int32 // names of revisions that were taken
}

// A history has the revisions of a set, by number.
type history []*appsv1.ControllerRevision

// history returns the revisions that the set controls, and the orphans that it selects.
//
// Upstream: pkg/controller/history realHistory.ListControllerRevisions (v1.36).
func (c *controller) history(set *appsv1.StatefulSet, selector labels.Selector) (history, error) {
	all, err := c.revisions.ControllerRevisions(set.Namespace).List(selector)
	if err != nil {
		return nil, err
	}
	past := history(slices.DeleteFunc(slices.Clone(all), func(r *appsv1.ControllerRevision) bool {
		ref := metav1.GetControllerOfNoCopy(r)
		return ref != nil && ref.UID != set.UID
	}))
	slices.SortFunc(past, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name))
	})
	return past, nil
}

// adoptRevisions adopts the orphaned revisions that the set selects.
//
// Upstream: pkg/controller/statefulset StatefulSetController.adoptOrphanRevisions (v1.36).
func (c *controller) adoptRevisions(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) error {
	past, err := c.history(set, selector)
	if err != nil {
		return err
	}
	claims := workload.Claims[*appsv1.ControllerRevision]{
		Owner: set, Kind: setKind, What: "ControllerRevision", Fresh: c.fresh(set),
		Patch: func(ctx context.Context, r *appsv1.ControllerRevision, patch []byte) error {
			_, err := c.client.AppsV1().ControllerRevisions(set.Namespace).
				Patch(ctx, r.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
	for _, r := range past {
		if metav1.GetControllerOfNoCopy(r) != nil {
			continue
		}
		if err := claims.Adopt(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// newRevision returns the revision of a set's template with its number and data, and without a name.
//
// Upstream: pkg/controller/statefulset newRevision, pkg/controller/history NewControllerRevision
// (v1.36).
func newRevision(set *appsv1.StatefulSet, number int64) (*appsv1.ControllerRevision, error) {
	data, err := workload.TemplatePatch(&set.Spec.Template)
	if err != nil {
		return nil, err
	}
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{workload.ControllerRef(set, setKind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	maps.Copy(r.Labels, set.Spec.Template.Labels)
	maps.Copy(r.Annotations, set.Annotations)
	return r, nil
}

// nameRevision names a revision by the hash of its data and the number of collisions.
//
// Upstream: pkg/controller/history HashControllerRevision, ControllerRevisionName (v1.36). The label
// keeps the hash without the collisions that follow.
func nameRevision(r *appsv1.ControllerRevision, set string, collisions int32) {
	hash := fnv.New32()
	hash.Write(r.Data.Raw)
	hash.Write([]byte(strconv.FormatInt(int64(collisions), 10)))
	text := rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
	r.Name = set[:min(len(set), prefixMax)] + "-" + text
	if r.Labels[hashLabel] == "" {
		r.Labels[hashLabel] = text
	}
}

// A choice is what must be done to have the revision of a set's template. One field is set.
type choice struct {
	found    *appsv1.ControllerRevision // nothing
	renumber *appsv1.ControllerRevision // give an older one the next number: a rollback
	create   *appsv1.ControllerRevision
	next     int64 // the next number
}

// choose returns which revision has the template of the set.
//
// Upstream: pkg/controller/statefulset defaultStatefulSetControl.getStatefulSetRevisions (v1.36).
func (h history) choose(set *appsv1.StatefulSet) (choice, error) {
	out := choice{next: 1}
	if len(h) > 0 {
		out.next = h[len(h)-1].Revision + 1
	}
	wanted, err := newRevision(set, out.next)
	if err != nil {
		return choice{}, err
	}
	equal := func(r *appsv1.ControllerRevision) bool { return bytes.Equal(r.Data.Raw, wanted.Data.Raw) }
	if len(h) > 0 && (equal(h[len(h)-1]) || !slices.ContainsFunc(h, equal) && sameTemplate(h[len(h)-1], wanted)) {
		out.found = h[len(h)-1]
		return out, nil
	}
	for _, r := range slices.Backward(h) {
		if equal(r) {
			out.renumber = r
			return out, nil
		}
	}
	out.create = wanted
	return out, nil
}

// sameTemplate reports whether the data of a revision is another encoding of the wanted one, such as
// that of another version of Kubernetes.
//
// Differs: upstream also sets defaults.
//
// Upstream: pkg/controller/statefulset setMatchesLatestExistingRevision (v1.36).
func sameTemplate(latest, wanted *appsv1.ControllerRevision) bool {
	var set struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(latest.Data.Raw, &set); err != nil {
		return false
	}
	data, err := workload.TemplatePatch(&set.Spec.Template)
	return err == nil && bytes.Equal(data, wanted.Data.Raw)
}

// ensureRevision returns the revisions of a set. The update revision exists then.
func (c *controller) ensureRevision(ctx context.Context, set *appsv1.StatefulSet, past history) (revisions, error) {
	at := revisions{collisions: ptr.Deref(set.Status.CollisionCount, 0)}
	todo, err := past.choose(set)
	switch {
	case err != nil:
	case todo.found != nil:
		at.update = todo.found
	case todo.renumber != nil:
		r := todo.renumber.DeepCopy()
		r.Revision = todo.next
		at.update, err = c.client.AppsV1().ControllerRevisions(set.Namespace).Update(ctx, r, metav1.UpdateOptions{})
	default:
		at.update, err = c.createRevision(ctx, set, todo.create, &at.collisions)
	}
	if err != nil {
		return revisions{}, err
	}
	at.current = at.update
	if i := slices.IndexFunc(past, func(r *appsv1.ControllerRevision) bool {
		return r.Name == set.Status.CurrentRevision
	}); i >= 0 {
		at.current = past[i]
	}
	return at, nil
}

// createRevision creates a revision. If its name is taken by other data, it counts a collision and
// tries another name.
//
// Upstream: pkg/controller/history realHistory.CreateControllerRevision (v1.36).
func (c *controller) createRevision(
	ctx context.Context, set *appsv1.StatefulSet, r *appsv1.ControllerRevision, collisions *int32,
) (*appsv1.ControllerRevision, error) {
	client := c.client.AppsV1().ControllerRevisions(set.Namespace)
	for {
		nameRevision(r, set.Name, *collisions)
		created, err := client.Create(ctx, r, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
		taken, err := client.Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if bytes.Equal(taken.Data.Raw, r.Data.Raw) {
			return taken, nil
		}
		*collisions++
	}
}

// revised returns the set with the template of a revision.
//
// Upstream: pkg/controller/statefulset ApplyRevision (v1.36).
func revised(set *appsv1.StatefulSet, r *appsv1.ControllerRevision) (*appsv1.StatefulSet, error) {
	data, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	if data, err = strategicpatch.StrategicMergePatch(data, r.Data.Raw, &appsv1.StatefulSet{}); err != nil {
		return nil, err
	}
	out := &appsv1.StatefulSet{}
	return out, json.Unmarshal(data, out)
}

// surplus returns the revisions to delete: the oldest of those that neither the set nor a pod has,
// beyond the limit.
//
// Upstream: pkg/controller/statefulset defaultStatefulSetControl.truncateHistory (v1.36).
func (h history) surplus(set *appsv1.StatefulSet, pods []*corev1.Pod, at revisions) history {
	live := map[string]bool{}
	for _, r := range []*appsv1.ControllerRevision{at.current, at.update} {
		if r != nil {
			live[r.Name] = true
		}
	}
	for _, pod := range pods {
		live[pod.Labels[appsv1.StatefulSetRevisionLabel]] = true
	}
	unused := slices.DeleteFunc(slices.Clone(h), func(r *appsv1.ControllerRevision) bool { return live[r.Name] })
	limit := int(*set.Spec.RevisionHistoryLimit)
	if limit < 0 || len(unused) <= limit {
		return nil
	}
	return unused[:len(unused)-limit]
}

// truncate deletes old revisions.
//
// Differs: upstream deletes by name, and fails if a revision is gone.
func (c *controller) truncate(
	ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, past history, at revisions,
) error {
	var errs []error
	for _, r := range past.surplus(set, pods, at) {
		err := c.client.AppsV1().ControllerRevisions(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(r.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
