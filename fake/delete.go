package fake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// remove deletes an object or begins its deletion. An object with finalizers is removed with the
// last of them, a pod on a node when its grace period ends. The propagation policy is written to
// the finalizers, for the garbage collector.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry Store.Delete, pkg/registry/rest
// BeforeDelete.
//
// show returns the object in the version of the request, for the response. If it fails, the object
// stays. nil: the response has the object as it is stored.
func (s writer) remove(
	k *kind, namespace, name string, opts metav1.DeleteOptions, show func(Object) (Object, error),
) (writeResult, error) {
	if err := validateDelete(&opts); err != nil {
		return writeResult{}, err
	}
	t, key := s.tableOf(k), key(namespace, name)
	for {
		old := s.lookup(t, key)
		if old == nil {
			return writeResult{}, apierrors.NewNotFound(k.groupResource(), name)
		}
		if err := mayDelete(k, old, opts.Preconditions); err != nil {
			return writeResult{}, err
		}
		obj := k.shallow(old)
		verdict := s.prepareDelete(k, obj, old, opts)
		if verdict != verdictKeep { // nothing is admitted while an earlier deletion is pending
			if err := s.restrictNode(nodeWrite{k: k, op: admissionv1.Delete, namespace: namespace, name: name, old: old}); err != nil {
				return writeResult{}, err
			}
			if err := s.admission.delete(old); err != nil {
				return writeResult{}, err
			}
		}
		if verdict == verdictKeep || verdict == verdictStore && same(obj, old) {
			obj, verdict = old, verdictKeep
		}
		answer := obj
		if show != nil {
			var err error
			if answer, err = show(obj); err != nil {
				return writeResult{}, err
			}
		}
		switch {
		case verdict == verdictKeep:
			return writeResult{object: answer}, nil
		case len(opts.DryRun) > 0:
			return writeResult{object: answer, deleted: verdict == verdictRemove}, nil
		case verdict == verdictStore && s.commit(t, watch.Modified, key, old, obj),
			verdict == verdictRemove && s.commit(t, watch.Deleted, key, old, obj):
			if answer != obj {
				answer.SetResourceVersion(obj.GetResourceVersion())
			}
			return writeResult{object: answer, before: old, after: obj, deleted: verdict == verdictRemove}, nil
		}
	}
}

// validateDelete validates the options of a deletion.
func validateDelete(opts *metav1.DeleteOptions) error {
	if errs := metav1validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// mayDelete checks the preconditions of a deletion, and that a namespace is not a reserved one.
func mayDelete(k *kind, old Object, p *metav1.Preconditions) error {
	if p == nil {
		p = &metav1.Preconditions{}
	}
	if k.id == "namespaces" {
		return mayDeleteNamespace(k, old, p)
	}
	resource := schema.GroupResource{Group: k.gvk.Group, Resource: k.gvk.Kind}
	if p.UID != nil && *p.UID != old.GetUID() {
		return apierrors.NewConflict(resource, old.GetName(),
			fmt.Errorf("the UID in the precondition (%s) does not match "+
				"the UID in record (%s). The object might have been deleted and then recreated", *p.UID, old.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(resource, old.GetName(),
			fmt.Errorf("the ResourceVersion in the precondition (%s) does "+
				"not match the ResourceVersion in record (%s). The object might have been modified",
				*p.ResourceVersion, old.GetResourceVersion()))
	}
	return nil
}

// mayDeleteNamespace is mayDelete for namespaces, which have their own messages.
//
// Upstream: pkg/registry/core/namespace/storage REST.Delete,
// k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
func mayDeleteNamespace(k *kind, old Object, p *metav1.Preconditions) error {
	name := old.GetName()
	if p.UID != nil && *p.UID != old.GetUID() {
		return apierrors.NewConflict(k.groupResource(), name, preconditionError("UID", *p.UID, old.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(k.groupResource(), name,
			preconditionError("ResourceVersion", *p.ResourceVersion, old.GetResourceVersion()))
	}
	switch name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return apierrors.NewForbidden(k.groupResource(), name, errors.New("this namespace may not be deleted"))
	}
	return nil
}

// preconditionError returns an error about a precondition and the actual value.
func preconditionError(field string, want, actual any) error {
	//lint:ignore ST1005 the words are upstream's
	return fmt.Errorf("Precondition failed: %s in precondition: %v, %s in object meta: %v", field, want, field, actual)
}

// prepareDelete applies a deletion to obj, a shallow copy of old, and returns what to do with it.
// The order is upstream's. Grace comes first; finalizers are set only if no grace period is
// pending. An object with finalizers or grace is kept.
func (s *Server) prepareDelete(k *kind, obj, old Object, opts metav1.DeleteOptions) verdict {
	m := metaOf(obj)
	if ns, ok := obj.(*corev1.Namespace); ok {
		if ns.DeletionTimestamp == nil {
			s.terminate(ns, &opts)
			return verdictStore
		}
		if len(ns.Spec.Finalizers) > 0 {
			return verdictKeep
		}
	}
	if k.custom != nil && k.custom.Finalize != nil && m.DeletionTimestamp == nil {
		now := s.timestamp()
		m.DeletionTimestamp = &now
		k.custom.Finalize(now, obj.(*CustomObject))
		return verdictStore
	}
	graceful, pending := false, false
	if k.grace != nil {
		graceful, pending = s.prepareGrace(k, m, old, opts.GracePeriodSeconds)
	}
	if pending {
		return verdictKeep
	}
	finalizers := collectorFinalizers(k.dependents, m.Finalizers, &opts)
	switch {
	case graceful && (len(finalizers) > 0 || *m.DeletionGracePeriodSeconds > 0):
		m.Finalizers = finalizers
		return verdictStore
	case graceful:
		m.Finalizers = finalizers
		return verdictRemove
	case len(finalizers) > 0:
		m.Finalizers = finalizers
		markDeleted(m, s.timestamp())
		return verdictStore
	default:
		return verdictRemove
	}
}

// prepareGrace handles kinds with a grace period. graceful is true if the deletion starts or
// shortens one, pending if an earlier deletion did. A second deletion can only shorten it.
//
// Differs: a pod without grace is removed in one commit; the real server first commits that its
// grace is 0.
//
// Upstream: k8s.io/apiserver/pkg/registry/rest BeforeDelete.
func (s *Server) prepareGrace(k *kind, m *metav1.ObjectMeta, old Object, requested *int64) (graceful, pending bool) {
	if requested != nil && *requested < 0 {
		requested = ptr.To(int64(1))
	}
	now := s.timestamp()
	had := m.DeletionGracePeriodSeconds
	switch {
	case m.DeletionTimestamp == nil:
		grace := k.grace(old, requested)
		m.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Duration(grace) * time.Second)}
		m.DeletionGracePeriodSeconds = &grace
		if m.Generation > 0 {
			m.Generation++
		}
		return true, false
	case had == nil || *had == 0:
		return false, false
	case requested == nil || *requested >= *had:
		return false, true
	}
	period := *requested
	at := metav1.Time{Time: m.DeletionTimestamp.Add(time.Duration(period-*had) * time.Second)}
	if at.Before(&now) {
		at, period = now, min(period, 1)
	}
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, &period
	return true, false
}

// dependents is the default propagation policy of a kind.
type dependents int

const (
	dependentsDeleted  dependents = iota // background: by the garbage collector, afterwards
	dependentsOrphaned                   // orphan: they lose their owner first
	dependentsNone                       // it has none, and never gets a finalizer for them
)

// collectorFinalizers returns an object's finalizers after a deletion. The options decide about the
// garbage collector's two finalizers; otherwise they stay, or follow the kind's default. They come
// last.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry deletionFinalizersForGarbageCollection.
func collectorFinalizers(usual dependents, finalizers []string, opts *metav1.DeleteOptions) []string {
	orphan, foreground := propagation(usual, finalizers, opts)
	if orphan == slices.Contains(finalizers, metav1.FinalizerOrphanDependents) &&
		foreground == slices.Contains(finalizers, metav1.FinalizerDeleteDependents) {
		return finalizers
	}
	return withCollectors(finalizers, orphan, foreground)
}

func withCollectors(finalizers []string, orphan, foreground bool) []string {
	var out []string
	for _, f := range finalizers {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			out = append(out, f)
		}
	}
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}

// propagation returns whether dependents must be orphaned, and whether they must be deleted first.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry shouldOrphanDependents,
// shouldDeleteDependents.
func propagation(usual dependents, finalizers []string, opts *metav1.DeleteOptions) (orphan, foreground bool) {
	switch {
	case usual == dependentsNone:
		return false, false
	case orphanDependents(opts) != nil:
		return *orphanDependents(opts), false
	case opts.PropagationPolicy != nil:
		return *opts.PropagationPolicy == metav1.DeletePropagationOrphan,
			*opts.PropagationPolicy == metav1.DeletePropagationForeground
	}
	for _, f := range finalizers {
		switch f {
		case metav1.FinalizerOrphanDependents:
			return true, false
		case metav1.FinalizerDeleteDependents:
			return false, true
		}
	}
	return usual == dependentsOrphaned, false
}

// markDeleted sets the deletion timestamp and a grace period of 0.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry markAsDeleting.
func markDeleted(m *metav1.ObjectMeta, now metav1.Time) {
	if m.DeletionTimestamp == nil && m.Generation > 0 {
		m.Generation++
	}
	if m.DeletionTimestamp == nil || now.Before(m.DeletionTimestamp) {
		m.DeletionTimestamp = &now
	}
	m.DeletionGracePeriodSeconds = ptr.To(int64(0))
}

// terminate marks a namespace. It is removed by a later deletion or update, once it is finalized.
// Its finalizers for the garbage collector follow their own rules.
//
// Upstream: pkg/registry/core/namespace/storage REST.Delete, shouldHaveDeleteDependentsFinalizer.
func (s *Server) terminate(ns *corev1.Namespace, opts *metav1.DeleteOptions) {
	now := s.timestamp()
	ns.DeletionTimestamp = &now
	ns.Status.Phase = corev1.NamespaceTerminating
	orphan := slices.Contains(ns.Finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(ns.Finalizers, metav1.FinalizerDeleteDependents)
	if o := orphanDependents(opts); o != nil {
		orphan, foreground = *o, !*o
	} else if p := opts.PropagationPolicy; p != nil {
		orphan, foreground = *p == metav1.DeletePropagationOrphan, *p == metav1.DeletePropagationForeground
	}
	ns.Finalizers = withCollectors(ns.Finalizers, orphan, foreground)
}

// podGrace returns the grace period of a pod in seconds.
//
// Upstream: pkg/registry/core/pod podStrategy.CheckGracefulDelete.
func podGrace(pod *corev1.Pod, requested *int64) int64 {
	var period int64
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return 0
	case requested != nil:
		period = *requested
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		return 1
	}
	return period
}

// orphanDependents returns the deprecated option for the propagation policy.
func orphanDependents(opts *metav1.DeleteOptions) *bool {
	return opts.OrphanDependents //lint:ignore SA1019 clients still send it
}
