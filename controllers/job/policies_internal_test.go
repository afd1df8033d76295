package job

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestSuccessPolicy(t *testing.T) {
	type rules []batchv1.SuccessPolicyRule
	indexes := func(text string) batchv1.SuccessPolicyRule { return batchv1.SuccessPolicyRule{SucceededIndexes: &text} }
	count := func(n int32) batchv1.SuccessPolicyRule { return batchv1.SuccessPolicyRule{SucceededCount: &n} }
	both := func(text string, n int32) batchv1.SuccessPolicyRule {
		return batchv1.SuccessPolicyRule{SucceededIndexes: &text, SucceededCount: &n}
	}
	for name, test := range map[string]struct {
		succeeded string
		rules     rules
		want      int // -1: none
	}{
		"no policy":                           {"0", nil, -1},
		"no rules":                            {"0", rules{}, -1},
		"invalid":                             {"0", rules{indexes("invalid-form")}, -1},
		"all indexes":                         {"0-2,4-7", rules{indexes("0-2")}, 0},
		"another index":                       {"0-2", rules{indexes("3")}, -1},
		"count":                               {"0-2", rules{count(2)}, 0},
		"too few":                             {"0-2", rules{count(4)}, -1},
		"the second rule":                     {"0-2,4-7", rules{indexes("9"), indexes("4,6")}, 1},
		"both rules":                          {"0-2,4-7", rules{indexes("0,1"), indexes("5")}, 0},
		"count of indexes":                    {"0-2,4-7", rules{both("3-6", 2)}, 0},
		"too few of the indexes":              {"0-2,6,7", rules{both("3-6", 2)}, -1},
		"nothing has succeeded":               {"", rules{count(4)}, -1},
		"proper subset":                       {"1-9", rules{indexes("2-4,6-8")}, 0},
		"equal":                               {"2-4,6-9", rules{indexes("2-4,6-9")}, 0},
		"beyond the completions":              {"2-5,7-9", rules{indexes("2-4,8-12")}, 0},
		"empty rule":                          {"1-3", rules{indexes("")}, -1},
		"empty rule, nothing":                 {"", rules{indexes("")}, -1},
		"only beyond the completions":         {"1-3,5-7", rules{indexes("10-12,14-16")}, -1},
		"overlap at first":                    {"2-4,6-8", rules{indexes("1-3,5-7")}, -1},
		"overlap at first, enough":            {"2-4,6-8", rules{both("1-3,5-7", 4)}, 0},
		"overlap at last":                     {"1-3,5-7", rules{indexes("2-4,6-9")}, -1},
		"overlap at last, enough":             {"1-3,5-7", rules{both("2-4,6-9", 4)}, 0},
		"superset":                            {"1-3,7,8", rules{indexes("0-4,6-9")}, -1},
		"superset, enough":                    {"1-3,7,8", rules{both("0-4,6-9", 5)}, 0},
		"overlap of several":                  {"1-3,5-9", rules{indexes("0-6,8-9")}, -1},
		"overlap of several, enough":          {"1-3,5-9", rules{both("0-6,8-9", 7)}, 0},
		"overlap at first, equal":             {"1-5,7-9", rules{indexes("0-5,7-9")}, -1},
		"overlap at first, equal, enough":     {"1-5,7-9", rules{both("0-5,7-9", 8)}, 0},
		"overlap with one interval":           {"1-9", rules{indexes("0-3,6-9")}, -1},
		"overlap with one interval, enough":   {"1-9", rules{both("0-3,6-9", 7)}, 0},
		"overlap with one interval, too few":  {"1-9", rules{both("0-3,6-9", 8)}, -1},
		"succeeded indexes beyond completion": {"8-10", rules{count(2)}, 0},
	} {
		s := indexedState(10, "", func(j *batchv1.Job) {
			j.Status.CompletedIndexes = test.succeeded
			if test.rules != nil {
				j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: test.rules}
			}
		})
		s.observeIndexes()
		want := ""
		if test.want >= 0 {
			want = fmt.Sprintf("Matched rules at index %d", test.want)
		}
		got := ""
		if c := s.succeededByPolicy(); c != nil {
			got = c.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFailureRules(t *testing.T) {
	const (
		ignore = batchv1.PodFailurePolicyActionIgnore
		job    = batchv1.PodFailurePolicyActionFailJob
		index  = batchv1.PodFailurePolicyActionFailIndex
		count  = batchv1.PodFailurePolicyActionCount
		in     = batchv1.PodFailurePolicyOnExitCodesOpIn
		notIn  = batchv1.PodFailurePolicyOnExitCodesOpNotIn
	)
	type rules []batchv1.PodFailurePolicyRule
	codes := func(do batchv1.PodFailurePolicyAction, operator batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: do, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: codes}}
	}
	of := func(container string, rule batchv1.PodFailurePolicyRule) batchv1.PodFailurePolicyRule {
		rule.OnExitCodes.ContainerName = &container
		return rule
	}
	disrupted := func(do batchv1.PodFailurePolicyAction, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: do, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: status},
		}}
	}
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	main := func(code int32) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("main", code)}}
	}
	target := func(status corev1.ConditionStatus) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: status}}}
	}
	const (
		counts     = "counts"
		byExit     = "Container main for pod default/p failed with exit code %d matching FailJob rule at index %d"
		byDisrupt  = "Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"
		ignored    = "ignored"
		failsIndex = "fails its index"
	)
	for name, test := range map[string]struct {
		rules  rules
		status corev1.PodStatus
		want   string
	}{
		"unknown action":              {rules{codes("UnknownAction", in, 2), codes(job, in, 2)}, main(2), fmt.Sprintf(byExit, 2, 1)},
		"unknown action, condition":   {rules{disrupted("UnknownAction", corev1.ConditionTrue)}, target(corev1.ConditionTrue), counts},
		"unknown operator":            {rules{codes(job, "UnknownOperator", 1, 2), codes(ignore, in, 2)}, main(2), ignored},
		"no rules":                    {nil, main(2), counts},
		"ignored code":                {rules{codes(ignore, in, 1, 2, 3)}, main(2), ignored},
		"negative code":               {rules{codes(ignore, in, -1073741571)}, main(-1073741571), ignored},
		"code that fails the job":     {rules{codes(job, in, 1, 2, 3)}, main(2), fmt.Sprintf(byExit, 2, 0)},
		"code that fails the index":   {rules{codes(index, in, 1, 2, 3)}, main(2), failsIndex},
		"code that counts":            {rules{codes(count, in, 1, 2), codes(ignore, in, 2, 3)}, main(2), counts},
		"second rule":                 {rules{codes(job, in, 1, 2, 3), codes(job, in, 4, 5, 6)}, main(6), fmt.Sprintf(byExit, 6, 1)},
		"a success does not match":    {rules{codes(ignore, notIn, 111)}, main(0), counts},
		"NotIn":                       {rules{codes(ignore, notIn, 5)}, main(6), ignored},
		"NotIn, named":                {rules{codes(ignore, notIn, 5, 6, 7)}, main(6), counts},
		"another container":           {rules{of("side", codes(job, in, 2))}, main(2), counts},
		"this container":              {rules{of("main", codes(job, in, 2))}, main(2), fmt.Sprintf(byExit, 2, 0)},
		"init container":              {rules{codes(job, in, 5)}, corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ended("main", 5)}}, fmt.Sprintf(byExit, 5, 0)},
		"successful containers":       {rules{codes(job, in, 111), codes(ignore, in, 0)}, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("a", 0), ended("b", 110), ended("c", 0)}}, counts},
		"condition that is ignored":   {rules{disrupted(ignore, corev1.ConditionTrue)}, target(corev1.ConditionTrue), ignored},
		"condition is False":          {rules{disrupted(ignore, corev1.ConditionFalse)}, target(corev1.ConditionFalse), ignored},
		"condition is Unknown":        {rules{disrupted(ignore, corev1.ConditionUnknown)}, target(corev1.ConditionUnknown), ignored},
		"condition False, but True":   {rules{disrupted(ignore, corev1.ConditionFalse)}, target(corev1.ConditionTrue), counts},
		"condition True, but False":   {rules{disrupted(ignore, corev1.ConditionTrue)}, target(corev1.ConditionFalse), counts},
		"condition fails the job":     {rules{disrupted(job, corev1.ConditionTrue)}, target(corev1.ConditionTrue), byDisrupt},
		"condition fails the index":   {rules{disrupted(index, corev1.ConditionTrue)}, target(corev1.ConditionTrue), failsIndex},
		"condition that counts":       {rules{disrupted(count, corev1.ConditionTrue), disrupted(job, corev1.ConditionTrue)}, target(corev1.ConditionTrue), counts},
		"no rule matched":             {rules{codes(job, in, 5, 6, 7)}, main(32), counts},
		"the first of two conditions": {rules{disrupted(ignore, corev1.ConditionTrue), codes(job, in, 2)}, main(2), fmt.Sprintf(byExit, 2, 1)},
	} {
		s := newState(&batchv1.Job{}, nil, nil, noon)
		s.job.Spec.PodFailurePolicy, s.job.Spec.BackoffLimitPerIndex = &batchv1.PodFailurePolicy{Rules: test.rules}, ptr.To[int32](1)
		pod := &corev1.Pod{Status: test.status}
		pod.Name, pod.Namespace = "p", "default"
		m := s.match(pod)
		got := ignored
		switch {
		case m.failure != "":
			got = m.failure
		case m.failsIndex:
			got = failsIndex
		case m.counts:
			got = counts
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
