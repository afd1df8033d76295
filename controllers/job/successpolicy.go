package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// succeededByPolicy returns how an indexed job ends if a rule of its success policy says so.
//
// Upstream: pkg/controller/job matchSuccessPolicy (v1.36).
func (s *state) succeededByPolicy() *batchv1.JobCondition {
	policy := s.job.Spec.SuccessPolicy
	if !s.isIndexed() || policy == nil || len(s.succeededIndexes) == 0 {
		return nil
	}
	for i := range policy.Rules {
		if succeedsBy(&policy.Rules[i], s.succeededIndexes, int(*s.job.Spec.Completions)) {
			return newCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy,
				fmt.Sprintf("Matched rules at index %d", i), s.now)
		}
	}
	return nil
}

// succeedsBy reports whether the indexes that succeeded satisfy a rule: all that it names, or as many of
// them as it says.
func succeedsBy(rule *batchv1.SuccessPolicyRule, succeeded intervals, completions int) bool {
	count := rule.SucceededCount
	if rule.SucceededIndexes == nil {
		return count != nil && succeeded.total() >= int(*count)
	}
	named := parseIntervals(*rule.SucceededIndexes, completions)
	if len(named) == 0 {
		return false
	}
	n := named.shared(succeeded)
	return n == named.total() || count != nil && n >= int(*count)
}
