package deployment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volsim/volsim/internal/workload"
)

// The annotations of sets, and of a Deployment its revision.
//
// Upstream: pkg/controller/deployment/util RevisionAnnotation, RevisionHistoryAnnotation,
// DesiredReplicasAnnotation, MaxReplicasAnnotation (v1.36).
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"
)

// historyMax bounds the length of historyAnnotation.
//
// Upstream: pkg/controller/deployment maxRevHistoryLengthInChars (v1.36).
const historyMax = 2000

// isOwn reports whether an annotation is not copied between a Deployment and its sets.
//
// Upstream: pkg/controller/deployment/util skipCopyAnnotation (v1.36).
func isOwn(annotation string) bool {
	return slices.Contains([]string{
		corev1.LastAppliedConfigAnnotation, revisionAnnotation, historyAnnotation, desiredAnnotation, maxAnnotation,
		appsv1.DeprecatedRollbackTo,
	}, annotation)
}

// revisionOf returns the revision of a set; 0 if it has none. One that is no number is not ok.
func revisionOf(set *appsv1.ReplicaSet) (revision int64, ok bool) {
	text, has := set.Annotations[revisionAnnotation]
	if !has {
		return 0, true
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil
}

// nextRevision returns the number after those of the old sets.
//
// Upstream: pkg/controller/deployment/util MaxRevision (v1.36).
func (r *rollout) nextRevision() int64 {
	var last int64
	for _, set := range r.old {
		if revision, ok := revisionOf(set); ok {
			last = max(last, revision)
		}
	}
	return last + 1
}

// lastRevision returns the second highest revision of sets; 0 if there is none.
//
// Upstream: pkg/controller/deployment/util LastRevision (v1.36).
func lastRevision(sets []*appsv1.ReplicaSet) int64 {
	revisions := []int64{0, 0}
	for _, set := range sets {
		if revision, ok := revisionOf(set); ok {
			revisions = append(revisions, revision)
		}
	}
	slices.Sort(revisions)
	return revisions[len(revisions)-2]
}

// byRevision is the order of sets by revision, and by age.
//
// Upstream: pkg/controller/deployment/util ReplicaSetsByRevision (v1.36).
func byRevision(a, b *appsv1.ReplicaSet) int {
	revisionA, okA := revisionOf(a)
	revisionB, okB := revisionOf(b)
	if !okA || !okB {
		return olderFirst(a, b)
	}
	return cmp.Or(cmp.Compare(revisionA, revisionB), olderFirst(a, b))
}

// annotateNew gives the new set the annotations of the Deployment and a revision, unless it has a
// higher one. It reports whether it changed something. The previous revision is added to the history
// of the set.
//
// Upstream: pkg/controller/deployment/util SetNewReplicaSetAnnotations (v1.36).
func annotateNew(d *appsv1.Deployment, set *appsv1.ReplicaSet, next int64) (changed bool) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	for k, v := range d.Annotations {
		if old, has := set.Annotations[k]; !isOwn(k) && (!has || old != v) {
			set.Annotations[k], changed = v, true
		}
	}
	old, had := set.Annotations[revisionAnnotation]
	revision, err := strconv.ParseInt(cmp.Or(old, "0"), 10, 64)
	switch {
	case err != nil:
		return false
	case revision >= next:
		return changed
	}
	set.Annotations[revisionAnnotation] = strconv.FormatInt(next, 10)
	if had {
		addHistory(set.Annotations, old)
	}
	return true
}

// addHistory adds a revision to the history of a set. The first ones make place for it.
func addHistory(annotations map[string]string, revision string) {
	var past []string
	if text := annotations[historyAnnotation]; text != "" {
		past = strings.Split(text, ",")
	}
	past = append(past, revision)
	for len(past) > 1 && len(strings.Join(past, ",")) > historyMax {
		past = past[1:]
	}
	if text := strings.Join(past, ","); len(text) <= historyMax {
		annotations[historyAnnotation] = text
	}
}

// numberOf returns the number in an annotation of a set.
//
// Upstream: pkg/controller/deployment/util getNonNegativeInt32FromAnnotation (v1.36).
func numberOf(set *appsv1.ReplicaSet, annotation string) (n int32, ok bool) {
	parsed, err := strconv.ParseUint(set.Annotations[annotation], 10, 31)
	return int32(parsed), err == nil //nolint:gosec // 31 bits
}

// annotateSizes gives a set the sizes of its Deployment, and reports whether they are new.
//
// Upstream: pkg/controller/deployment/util SetReplicasAnnotations (v1.36).
func annotateSizes(d *appsv1.Deployment, set *appsv1.ReplicaSet) (changed bool) {
	surge, _ := fences(d)
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	for k, n := range map[string]int32{desiredAnnotation: *d.Spec.Replicas, maxAnnotation: *d.Spec.Replicas + surge} {
		if text := strconv.Itoa(int(n)); set.Annotations[k] != text {
			set.Annotations[k], changed = text, true
		}
	}
	return changed
}

// sameTemplate reports whether templates are equal but for the label with the hash.
//
// Upstream: pkg/controller/deployment/util EqualIgnoreHash (v1.36).
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(withoutHash(a), withoutHash(b))
}

func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return t
}

// setName returns the name of a set.
//
// Upstream: pkg/controller/deployment generateReplicaSetName (v1.36).
func setName(d *appsv1.Deployment, hash string) string {
	return d.Name[:min(len(d.Name), validation.DNS1123SubdomainMaxLength-1-len(hash))] + "-" + hash
}

// newSet returns the set of the present template, as it is created.
func (r *rollout) newSet() *appsv1.ReplicaSet {
	d := r.d
	hash := workload.TemplateHash(&d.Spec.Template, d.Status.CollisionCount)
	set := &appsv1.ReplicaSet{}
	set.Name, set.Namespace = setName(d, hash), d.Namespace
	set.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels = withLabel(d.Spec.Template.Labels, hash)
	set.Labels = maps.Clone(set.Spec.Template.Labels)
	set.Spec.Selector = d.Spec.Selector.DeepCopy()
	set.Spec.Selector.MatchLabels = withLabel(d.Spec.Selector.MatchLabels, hash)
	size := r.newSize(0)
	set.Spec.Replicas = &size
	annotateNew(d, set, r.nextRevision())
	annotateSizes(d, set)
	return set
}

func withLabel(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}

// syncRevision gives the new set, if it exists, its revision and annotations, and the Deployment the
// revision of the new set.
//
// Upstream: pkg/controller/deployment DeploymentController.getNewReplicaSet (v1.36).
func (r *rollout) syncRevision(ctx context.Context) error {
	if r.newest == nil {
		return nil
	}
	set := r.newest.DeepCopy()
	changed := annotateNew(r.d, set, r.nextRevision())
	if changed || set.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
		set.Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
		return r.updateSet(ctx, set)
	}
	return r.noteNew(ctx, set.Annotations[revisionAnnotation], conditionOf(&r.d.Status, appsv1.DeploymentProgressing) == nil,
		"FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", set.Name))
}

// noteNew gives the Deployment the revision of the new set. With progress it also gets a condition.
func (r *rollout) noteNew(ctx context.Context, revision string, progress bool, reason, message string) error {
	changed := false
	if r.d.Annotations[revisionAnnotation] != revision {
		if r.d.Annotations == nil {
			r.d.Annotations = map[string]string{}
		}
		r.d.Annotations[revisionAnnotation], changed = revision, true
	}
	if progress && hasDeadline(r.d) {
		r.setCondition(&r.d.Status, appsv1.DeploymentProgressing, corev1.ConditionTrue, reason, message)
		changed = true
	}
	if !changed {
		return nil
	}
	return r.updateStatus(ctx)
}
