package fake

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/internal/quota"
)

// charge applies the plugin ResourceQuota: it adds what an object uses to the status of each quota
// that concerns it, or refuses the write. It is the last check of a write. If the write then fails,
// because the object exists or was changed by another writer, the quota stays charged until
// controllers/resourcequota adds up again. So does upstream's. A quota without a status is not
// enforced: the controller has not seen it yet, or does not run.
//
// Differs: a quota that another writer has changed meanwhile is charged as it is then; upstream gives
// up after three attempts. There is no configuration of resources that are limited by default.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota (v1.36).
func (s writer) charge(k *kind, through subresource, obj, old Object, dryRun bool) error {
	if !k.namespaced || through != mainResource && through != statusSubresource {
		return nil
	}
	quotas := s.stored("resourcequotas", obj.GetNamespace())
	if len(quotas) == 0 {
		return nil
	}
	request := quota.Request{
		Resource: k.groupResource(), Object: obj, Old: old, Status: through == statusSubresource, Now: s.now(),
	}
	if !request.Concerns() {
		return nil
	}
	refuse := func(err error) error {
		return apierrors.NewForbidden(k.groupResource(), requestedName(metaOf(obj)), err)
	}
	var charged []*corev1.ResourceQuota
	for _, stored := range quotas {
		q := stored.(*corev1.ResourceQuota)
		switch used, err := quota.Charge(q, request); {
		case err != nil:
			return refuse(err)
		case used != nil:
			charged = append(charged, q)
		}
	}
	if dryRun {
		return nil
	}
	for _, q := range charged {
		_, err := s.update(s.table("resourcequotas").kind, change{
			namespace: q.Namespace, name: q.Name, subresource: statusSubresource,
			applier: applyFunc(func(stored Object) (Object, error) {
				q := stored.(*corev1.ResourceQuota)
				used, err := quota.Charge(q, request)
				if err != nil {
					return nil, refuse(err)
				}
				q = q.DeepCopy()
				if used != nil {
					q.Status.Used = used
				}
				return q, nil
			}),
		})
		if err != nil && !isMissing(err, q) {
			return err
		}
	}
	return nil
}

// isMissing reports whether an error says that a quota was deleted meanwhile.
func isMissing(err error, q *corev1.ResourceQuota) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details.Name == q.Name
}

// stored returns the objects of a resource in a namespace, by name.
func (s *Server) stored(resource, namespace string) []Object {
	t := s.table(resource)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t.objects.Len() == 0 {
		return nil
	}
	var found []Object
	t.objects.Ascend(namespace+"/", func(_ string, obj Object) bool {
		if obj.GetNamespace() != namespace {
			return false
		}
		found = append(found, obj)
		return true
	})
	return found
}
