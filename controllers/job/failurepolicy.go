package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// A match is what the failure policy of a job says about a failed pod.
type match struct {
	counts     bool   // towards the back-off limits
	failure    string // why the job fails; "": it does not
	failsIndex bool
}

// match returns the first rule of the failure policy that a failed pod matches. Without one the failure
// counts.
//
// Upstream: pkg/controller/job matchPodFailurePolicy (v1.36).
func (s *state) match(pod *corev1.Pod) match {
	policy := s.job.Spec.PodFailurePolicy
	if policy == nil {
		return match{counts: true}
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		what := ""
		if rule.OnExitCodes != nil {
			if c := exitMatching(&pod.Status, rule.OnExitCodes); c != nil {
				what = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v",
					c.Name, pod.Namespace, pod.Name, c.State.Terminated.ExitCode)
			}
		} else if c := conditionMatching(&pod.Status, rule.OnPodConditions); c != nil {
			what = fmt.Sprintf("Pod %s/%s has condition %v", pod.Namespace, pod.Name, c.Type)
		}
		if what == "" {
			continue
		}
		switch rule.Action {
		case batchv1.PodFailurePolicyActionIgnore:
			return match{}
		case batchv1.PodFailurePolicyActionFailIndex:
			return match{counts: true, failsIndex: true}
		case batchv1.PodFailurePolicyActionCount:
			return match{counts: true}
		case batchv1.PodFailurePolicyActionFailJob:
			return match{counts: true, failure: fmt.Sprintf("%s matching %v rule at index %d", what, rule.Action, i)}
		}
	}
	return match{counts: true}
}

// exitMatching returns the first container that ended with a code that a rule names. Init containers come
// last.
func exitMatching(status *corev1.PodStatus, rule *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		i := slices.IndexFunc(list, func(c corev1.ContainerStatus) bool {
			if c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 ||
				rule.ContainerName != nil && *rule.ContainerName != c.Name {
				return false
			}
			named := slices.Contains(rule.Values, c.State.Terminated.ExitCode)
			return rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && named ||
				rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && !named
		})
		if i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// conditionMatching returns the first condition that a rule names.
func conditionMatching(
	status *corev1.PodStatus, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern,
) *corev1.PodCondition {
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return slices.ContainsFunc(patterns, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return c.Type == p.Type && c.Status == p.Status
		})
	})
	if i < 0 {
		return nil
	}
	return &status.Conditions[i]
}
