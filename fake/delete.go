package fake

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// remove deletes an object, or says that it is to go: one with finalizers goes when the last of them does, a pod on a
// node when its grace is over.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry Store.Delete, pkg/registry/rest BeforeDelete.
func (s *Server) remove(k *kind, namespace, name string, opts metav1.DeleteOptions) (written, error) {
	t, key := s.tableOf(k), key(namespace, name)
	for {
		old := s.lookup(t, key)
		if old == nil {
			return written{}, apierrors.NewNotFound(k.groupResource(), name)
		}
		if err := mayDelete(k, namespace, old, opts.Preconditions); err != nil {
			return written{}, err
		}
		obj := k.shallow(old)
		what := s.prepareDelete(k, obj, old, opts)
		switch {
		case what == verdictKeep:
			return written{object: old}, nil
		case len(opts.DryRun) > 0:
			return written{object: obj, gone: what == verdictRemove}, nil
		case what == verdictPut && s.commit(t, watch.Modified, key, old, obj),
			what == verdictRemove && s.commit(t, watch.Deleted, key, old, obj):
			return written{object: obj, before: old, after: obj, gone: what == verdictRemove}, nil
		}
	}
}

// mayDelete checks the UID and the resourceVersion that a deletion presumes, and that the namespace is not immortal.
func mayDelete(k *kind, namespace string, old Object, p *metav1.Preconditions) error {
	name := old.GetName()
	if k.resource == "namespaces" {
		switch name {
		case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
			return apierrors.NewForbidden(k.groupResource(), name, errors.New("this namespace may not be deleted"))
		}
	}
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != old.GetUID() {
		return apierrors.NewConflict(k.groupResource(), name, preconditionError("UID", *p.UID, old.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(k.groupResource(), name,
			preconditionError("ResourceVersion", *p.ResourceVersion, old.GetResourceVersion()))
	}
	return nil
}

// preconditionError says what a writer presumed of an object, and how it is.
func preconditionError(what string, asked, is any) error {
	//lint:ignore ST1005 the words are upstream's
	return fmt.Errorf("Precondition failed: %s in precondition: %v, %s in object meta: %v", what, asked, what, is)
}

// prepareDelete makes obj, a shallow copy of old, what a deletion leaves, and says what is to be done with it.
func (s *Server) prepareDelete(k *kind, obj, old Object, opts metav1.DeleteOptions) verdict {
	m, was := metaOf(obj), metaOf(old)
	if ns, ok := obj.(*corev1.Namespace); ok {
		return s.prepareDeleteNamespace(ns)
	}
	if k.grace != nil {
		return s.prepareDeleteGraceful(k, m, old, opts.GracePeriodSeconds)
	}
	if k.custom != nil && k.custom.Finalize != nil && was.DeletionTimestamp == nil {
		now := s.timestamp()
		m.DeletionTimestamp = &now
		k.custom.Finalize(now, obj.(*Custom))
		return verdictPut
	}
	switch {
	case len(was.Finalizers) == 0:
		return verdictRemove
	case was.DeletionTimestamp != nil:
		return verdictKeep
	}
	markDeleted(m, s.timestamp(), 0)
	return verdictPut
}

// prepareDeleteGraceful is for objects whose deletion has a grace period. A second deletion may only shorten it.
//
// Differs: a pod that goes at once goes in one commit; the real server first commits that its grace is 0.
func (s *Server) prepareDeleteGraceful(k *kind, m *metav1.ObjectMeta, old Object, asked *int64) verdict {
	was := metaOf(old)
	switch {
	case was.DeletionTimestamp == nil:
		markDeleted(m, s.timestamp(), k.grace(old, asked))
	case was.DeletionGracePeriodSeconds == nil || *was.DeletionGracePeriodSeconds == 0:
		if len(was.Finalizers) > 0 {
			return verdictKeep
		}
	case asked == nil || *asked >= *was.DeletionGracePeriodSeconds:
		return verdictKeep
	default:
		had := time.Duration(*was.DeletionGracePeriodSeconds) * time.Second
		markDeleted(m, metav1.Time{Time: was.DeletionTimestamp.Add(-had)}, max(*asked, 0))
	}
	if last(m, m) {
		return verdictRemove
	}
	return verdictPut
}

// markDeleted says in an object's metadata that its deletion has begun, and the seconds of grace it has.
func markDeleted(m *metav1.ObjectMeta, begun metav1.Time, grace int64) {
	if m.DeletionTimestamp == nil && m.Generation > 0 {
		m.Generation++
	}
	at := metav1.Time{Time: begun.Add(time.Duration(grace) * time.Second)}
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, &grace
}

// prepareDeleteNamespace marks a namespace; it goes at a later deletion, or update, once it has been finalized.
//
// Upstream: pkg/registry/core/namespace/storage REST.Delete.
func (s *Server) prepareDeleteNamespace(ns *corev1.Namespace) verdict {
	if ns.DeletionTimestamp == nil {
		now := s.timestamp()
		ns.DeletionTimestamp = &now
		ns.Status.Phase = corev1.NamespaceTerminating
		return verdictPut
	}
	if len(ns.Spec.Finalizers) > 0 || len(ns.Finalizers) > 0 {
		return verdictKeep
	}
	return verdictRemove
}

// podGrace is how long a pod may take to go.
//
// Upstream: pkg/registry/core/pod podStrategy.CheckGracefulDelete.
func podGrace(pod *corev1.Pod, asked *int64) int64 {
	var period int64
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return 0
	case asked != nil:
		period = *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		return 1
	}
	return period
}
