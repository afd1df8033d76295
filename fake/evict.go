package fake

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file evicts pods. A pod is deleted if its disruption budget allows it; the budget then records
// the disruption in its status, until controllers/disruption has seen it.
//
// Differs: another writer of the pod or of the budget is waited for without a limit, and without
// pauses. A budget whose selector selects everything, or nothing, is as in policy/v1.
//
// Upstream: pkg/registry/core/pod/storage EvictionREST (v1.36).

const (
	evictMsg = "Cannot evict pod as it would violate the pod's disruption budget."
	// disruptedMax is the maximum number of disruptions that the controller has not seen.
	disruptedMax = 2000
)

// evict evicts a pod.
func evict(s writer, namespace, name string, body runtime.Object, dryRun bool) (actionResult, error) {
	eviction := body.(*policyv1.Eviction)
	if eviction.Name != "" && eviction.Name != name {
		return actionResult{}, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	opts := metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		opts = *eviction.DeleteOptions.DeepCopy()
	}
	if ptr.Deref(opts.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		return actionResult{}, apierrors.NewInvalid(schema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}, name, field.ErrorList{
			field.Invalid(field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true,
				"can not be set for pod eviction, try after removing the option"),
		})
	}
	if dryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	for {
		done, changed, err := s.tryEvict(namespace, name, *opts.DeepCopy())
		if !changed {
			return actionResult{writeResult: done, answer: success()}, err
		}
	}
}

// tryEvict evicts a pod as it is now. changed reports whether another writer changed the pod
// meanwhile, so that it is guarded now.
func (s writer) tryEvict(namespace, name string, opts metav1.DeleteOptions) (done writeResult, changed bool, err error) {
	pods := s.table("pods")
	pod, _ := s.lookup(pods, key(namespace, name)).(*corev1.Pod)
	if pod == nil {
		return writeResult{}, false, apierrors.NewNotFound(pods.kind.groupResource(), name)
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	unguarded, err := s.spend(pod, ended, len(opts.DryRun) > 0)
	if err != nil {
		return writeResult{}, false, err
	}
	if opts.Preconditions == nil {
		opts.Preconditions = &metav1.Preconditions{}
	}
	if !unguarded || ended || opts.Preconditions.ResourceVersion != nil {
		done, err = s.disrupt(pods.kind, namespace, name, opts)
		return done, false, err
	}
	opts.Preconditions.ResourceVersion = &pod.ResourceVersion // it must not become ready meanwhile
	done, err = s.disrupt(pods.kind, namespace, name, opts)
	now, _ := s.lookup(pods, key(namespace, name)).(*corev1.Pod)
	return done, apierrors.IsConflict(err) && now != nil && now != pod, err
}

// disrupt marks a pod as the target of a disruption and deletes it.
//
// Upstream: pkg/registry/core/pod/storage addConditionAndDeletePod.
func (s writer) disrupt(k *kind, namespace, name string, opts metav1.DeleteOptions) (writeResult, error) {
	if len(opts.DryRun) == 0 {
		marked, err := s.update(k, change{
			namespace: namespace, name: name, subresource: statusSubresource,
			applier: applyFunc(func(old Object) (Object, error) {
				return disrupted(s.timestamp(), old.(*corev1.Pod), opts.Preconditions)
			}),
		})
		if err != nil {
			return writeResult{}, err
		}
		if opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil {
			opts.Preconditions.ResourceVersion = ptr.To(marked.object.GetResourceVersion())
		}
	}
	return s.remove(k, namespace, name, opts, nil)
}

// disrupted returns a pod with the condition that it is being evicted.
func disrupted(now metav1.Time, pod *corev1.Pod, want *metav1.Preconditions) (Object, error) {
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, pod.Name, fmt.Errorf(format, args...))
	}
	if want != nil {
		if uid := ptr.Deref(want.UID, ""); uid != "" && uid != pod.UID {
			return nil, conflict("the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated", uid, pod.UID)
		}
		if rv := ptr.Deref(want.ResourceVersion, ""); rv != "" && rv != pod.ResourceVersion {
			return nil, conflict("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
				"The object might have been modified", rv, pod.ResourceVersion)
		}
	}
	pod = pod.DeepCopy()
	setCondition(pod, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	})
	return pod, nil
}

// spend takes a disruption from the pod's budget, or returns an error. unguarded says that the budget
// is not concerned: the pod does not run, has ended, or is not ready and its budget allows that.
//
// Upstream: pkg/registry/core/pod/storage EvictionREST.Create.
func (s writer) spend(pod *corev1.Pod, ended, dryRun bool) (unguarded bool, err error) {
	if ended || pod.Status.Phase == corev1.PodPending {
		return true, nil
	}
	budgets := s.budgetsOf(pod)
	switch len(budgets) {
	case 0:
		return false, nil
	case 1:
	default:
		return false, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	}
	budget := budgets[0]
	if !isReady(pod) {
		policy := ptr.Deref(budget.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget)
		if policy == policyv1.AlwaysAllow ||
			budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy {
			return true, nil
		}
	}
	_, err = s.update(s.table("poddisruptionbudgets").kind, change{
		namespace: budget.Namespace, name: budget.Name, subresource: statusSubresource, dryRun: dryRun,
		applier: applyFunc(func(old Object) (Object, error) {
			budget := old.(*policyv1.PodDisruptionBudget)
			if err := allows(budget); err != nil {
				return nil, err
			}
			budget = budget.DeepCopy()
			if budget.Status.DisruptionsAllowed--; budget.Status.DisruptionsAllowed == 0 {
				apimeta.SetStatusCondition(&budget.Status.Conditions, metav1.Condition{
					Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
					ObservedGeneration: budget.Status.ObservedGeneration, LastTransitionTime: s.timestamp(),
				})
			}
			if budget.Status.DisruptedPods == nil {
				budget.Status.DisruptedPods = map[string]metav1.Time{}
			}
			budget.Status.DisruptedPods[pod.Name] = s.timestamp()
			return budget, nil
		}),
	})
	return false, err
}

// budgetsOf returns the disruption budgets that select a pod, by name.
func (s *Server) budgetsOf(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, stored := range s.stored("poddisruptionbudgets", pod.Namespace) {
		budget := stored.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return found
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// allows returns an error if a budget allows no disruption.
//
// Upstream: pkg/registry/core/pod/storage EvictionREST.checkAndDecrement.
func allows(budget *policyv1.PodDisruptionBudget) error {
	status := &budget.Status
	resource := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	switch {
	case status.ObservedGeneration < budget.Generation:
		return tooMany(10, "The disruption budget %s is still being processed by the server.", budget.Name)
	case status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(resource, budget.Name, errors.New("pdb disruptions allowed is negative"))
	case len(status.DisruptedPods) > disruptedMax:
		return apierrors.NewForbidden(resource, budget.Name,
			errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case status.DisruptionsAllowed > 0:
		return nil
	}
	condition := apimeta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	explained := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""
	switch {
	case explained && condition.Reason == policyv1.SyncFailedReason:
		return tooMany(0, "The disruption budget %s does not allow evicting pods currently because it failed sync: %s",
			budget.Name, condition.Message)
	case status.CurrentHealthy <= status.DesiredHealthy:
		return tooMany(0, "The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, status.DesiredHealthy, status.CurrentHealthy)
	case explained:
		return tooMany(0, "The disruption budget %s does not allow evicting pods currently (%s): %s",
			budget.Name, condition.Reason, condition.Message)
	default:
		return tooMany(0, "The disruption budget %s does not allow evicting pods currently", budget.Name)
	}
}

// tooMany returns the error of an eviction that a budget does not allow, with its cause.
func tooMany(retryAfter int, format string, args ...any) error {
	err := apierrors.NewTooManyRequests(evictMsg, retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...),
	})
	return err
}
