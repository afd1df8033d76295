package rules

import (
	"fmt"
	"reflect"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file validates the specs of jobs.
//
// Upstream: pkg/apis/batch/validation; pkg/registry/batch/job jobStrategy (v1.36).

// The limits of a job.
const (
	maxParallel      = 100_000 // of an indexed job
	maxFailedIndexes = 100_000
	manyCompletions  = 100_000 // with more, an indexed job has lower limits
	manyParallel     = 10_000
	manyFailed       = 10_000

	maxPolicyRules     = 20
	maxExitCodes       = 255
	maxConditions      = 20
	maxManagedBy       = 63
	maxRuleIndexesText = 64 * 1024
)

func isIndexed(spec *batchv1.JobSpec) bool {
	return ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// validateJob validates a job to be created.
//
// Upstream: pkg/apis/batch/validation ValidateJob.
func validateJob(job, _ *batchv1.Job) field.ErrorList { return validateWholeJob(job, true) }

// validateWholeJob validates a job. prefixed requires the generated labels that have a prefix.
func validateWholeJob(job *batchv1.Job, prefixed bool) field.ErrorList {
	errs := validateGenerated(job, prefixed)
	errs = append(errs, validateSelectingJobSpec(&job.Spec)...)
	if n := ptr.Deref(job.Spec.Completions, 0); isIndexed(&job.Spec) && n > 0 {
		if host := fmt.Sprintf("%s-%d", job.Name, n-1); len(utilvalidation.IsDNS1123Label(host)) > 0 {
			errs = append(errs, field.Invalid(metaPath.Child("name"), job.Name,
				"will not able to create pod with invalid DNS label: "+host))
		}
	}
	return errs
}

// validateGenerated validates that the template has the generated labels, and that the selector
// selects them, unless the writer manages both.
func validateGenerated(job *batchv1.Job, prefixed bool) field.ErrorList {
	if ptr.Deref(job.Spec.ManualSelector, false) || job.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if job.UID == "" {
		errs = append(errs, field.Required(metaPath.Child("uid"), ""))
	}
	required := []string{legacyControllerUID, legacyJobName}
	if prefixed {
		required = append(required, batchv1.ControllerUidLabel, batchv1.JobNameLabel)
	}
	wanted, path := generatedLabels(job), templatePath.Child("metadata", "labels")
	generated := labels.Set{}
	for _, label := range required {
		generated[label] = wanted[label]
		switch got, found := job.Spec.Template.Labels[label]; {
		case !found:
			errs = append(errs, field.Required(path.Key(label), fmt.Sprintf("must be '%s'", wanted[label])))
		case got != wanted[label]:
			errs = append(errs, field.Invalid(path.Key(label), job.Spec.Template.Labels, fmt.Sprintf("must be '%s'", wanted[label])))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !s.Matches(generated) {
		errs = append(errs, field.Invalid(selectorPath, job.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateSelectingJobSpec validates the spec of a job, which has a selector.
//
// Upstream: pkg/apis/batch/validation ValidateJobSpec.
func validateSelectingJobSpec(spec *batchv1.JobSpec) field.ErrorList {
	errs := validateJobSpec(spec, specPath)
	if spec.Selector == nil {
		errs = append(errs, field.Required(selectorPath, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{}, selectorPath)...)
	}
	s, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err == nil && !s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(templatePath.Child("metadata", "labels"), spec.Template.Labels, selectorMsg))
	}
	return errs
}

// validateJobSpec validates what the spec of a job and that of a job template have in common.
func validateJobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := validateNotNegative(path, countOf("parallelism", spec.Parallelism), countOf("completions", spec.Completions),
		countOf("activeDeadlineSeconds", spec.ActiveDeadlineSeconds), countOf("backoffLimit", spec.BackoffLimit),
		countOf("ttlSecondsAfterFinished", spec.TTLSecondsAfterFinished),
		countOf("backoffLimitPerIndex", spec.BackoffLimitPerIndex), countOf("maxFailedIndexes", spec.MaxFailedIndexes))
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if by := spec.ManagedBy; by != nil {
		errs = append(errs, utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *by)...)
		if len(*by) > maxManagedBy {
			errs = append(errs, field.TooLong(path.Child("managedBy"), "", maxManagedBy))
		}
	}
	errs = append(errs, validateCompletionMode(spec, path)...)
	errs = append(errs, validateFailurePolicy(spec, path.Child("podFailurePolicy", "rules"))...)
	if s := spec.SuccessPolicy; s != nil {
		if isIndexed(spec) {
			errs = append(errs, validateSuccessPolicy(spec, path.Child("successPolicy", "rules"))...)
		} else {
			errs = append(errs, field.Invalid(path.Child("successPolicy"), goFields{s}, "requires indexed completion mode"))
		}
	}
	errs = append(errs, validateReplacement(spec, path.Child("podReplacementPolicy"))...)
	errs = append(errs, validateTemplateAt(&spec.Template, path.Child("template"))...)
	return append(errs, validateJobRestarts(spec, path.Child("template", "spec", "restartPolicy"))...)
}

func validateCompletionMode(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mode := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion)
	switch mode {
	case batchv1.IndexedCompletion:
		return validateIndexedJob(spec, path)
	case batchv1.NonIndexedCompletion:
		for _, f := range []struct {
			name  string
			value *int32
		}{{"backoffLimitPerIndex", spec.BackoffLimitPerIndex}, {"maxFailedIndexes", spec.MaxFailedIndexes}} {
			if f.value != nil {
				errs = append(errs, field.Invalid(path.Child(f.name), *f.value, "requires indexed completion mode"))
			}
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("completionMode"), mode,
			[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	return errs
}

// validateIndexedJob validates the limits of an indexed job.
func validateIndexedJob(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	parallel, failed := ptr.Deref(spec.Parallelism, 0), ptr.Deref(spec.MaxFailedIndexes, 0)
	atMost := func(name string, value int32, limit int, why string) {
		if int(value) > limit {
			errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf("must be less than or equal to %d%s", limit, why)))
		}
	}
	if spec.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
	}
	atMost("parallelism", parallel, maxParallel, " when completion mode is Indexed")
	if spec.Completions != nil && failed > *spec.Completions {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), failed, "must be less than or equal to completions"))
	}
	atMost("maxFailedIndexes", failed, maxFailedIndexes, "")
	if ptr.Deref(spec.Completions, 0) > manyCompletions && spec.BackoffLimitPerIndex != nil {
		const why = " when completions are above 100000 and used with backoff limit per index"
		if spec.MaxFailedIndexes == nil {
			errs = append(errs, field.Required(path.Child("maxFailedIndexes"), "must be specified when completions is above 100000"))
		}
		atMost("parallelism", parallel, manyParallel, why)
		atMost("maxFailedIndexes", failed, manyFailed, why)
	}
	return errs
}

func validateJobRestarts(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	policy := spec.Template.Spec.RestartPolicy
	switch {
	case policy == "" || policy == corev1.RestartPolicyAlways:
		return field.ErrorList{field.Required(path, `valid values: "OnFailure", "Never"`)}
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(path, policy,
			[]corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case spec.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(path, policy, `only "Never" is supported when podFailurePolicy is specified`)}
	}
	return nil
}

func validateReplacement(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if spec.PodReplacementPolicy == nil {
		return nil
	}
	valid := []batchv1.PodReplacementPolicy{batchv1.Failed}
	if spec.PodFailurePolicy == nil {
		valid = append(valid, batchv1.TerminatingOrFailed)
	}
	if slices.Contains(valid, *spec.PodReplacementPolicy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *spec.PodReplacementPolicy, valid)}
}

var failureActions = []batchv1.PodFailurePolicyAction{
	batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
	batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
}

func validateFailurePolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if spec.PodFailurePolicy == nil {
		return nil
	}
	all := spec.PodFailurePolicy.Rules
	errs := validateCount(path, len(all), maxPolicyRules)
	for i := range all {
		errs = append(errs, validateFailureRule(spec, &all[i], path.Index(i))...)
	}
	return errs
}

// validateCount validates the length of a list.
func validateCount(path *field.Path, n, most int) field.ErrorList {
	if n <= most {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, most)}
}

func validateFailureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	actionPath := path.Child("action")
	switch {
	case rule.Action == "":
		errs = append(errs, field.Required(actionPath, fmt.Sprintf("valid values: %q", failureActions)))
	case rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil:
		errs = append(errs, field.Invalid(actionPath, rule.Action, "requires the backoffLimitPerIndex to be set"))
	default:
		errs = append(errs, oneOf(rule.Action, actionPath, failureActions...)...)
	}
	if rule.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(&spec.Template.Spec, rule.OnExitCodes, path.Child("onExitCodes"))...)
	}
	errs = append(errs, validateConditionPatterns(rule.OnPodConditions, path.Child("onPodConditions"))...)
	switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case codes && conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{},
			"specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{},
			"specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateConditionPatterns(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	errs := validateCount(path, len(patterns), maxConditions)
	for i, p := range patterns {
		errs = append(errs, validateQualified(string(p.Type), path.Index(i).Child("type"))...)
		errs = append(errs, oneOf(p.Status, path.Index(i).Child("status"),
			corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
	}
	return errs
}

func validateExitCodes(
	pod *corev1.PodSpec, on *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	operators := []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn,
	}
	if on.Operator == "" {
		errs = append(errs, field.Required(path.Child("operator"), fmt.Sprintf("valid values: %q", operators)))
	} else {
		errs = append(errs, oneOf(on.Operator, path.Child("operator"), operators...)...)
	}
	named := func(c corev1.Container) bool { return c.Name == *on.ContainerName }
	if on.ContainerName != nil && !slices.ContainsFunc(pod.Containers, named) && !slices.ContainsFunc(pod.InitContainers, named) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *on.ContainerName,
			"must be one of the container or initContainer names in the pod template"))
	}
	path = path.Child("values")
	if len(on.Values) == 0 {
		errs = append(errs, field.Invalid(path, on.Values, "at least one value is required"))
	}
	errs = append(errs, validateCount(path, len(on.Values), maxExitCodes)...)
	for i, code := range on.Values {
		if code == 0 && on.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(path.Index(i), code, "must not be 0 for the In operator"))
		}
		if slices.Contains(on.Values[:i], code) {
			errs = append(errs, field.Duplicate(path.Index(i), code))
		}
	}
	if !slices.IsSorted(on.Values) {
		errs = append(errs, field.Invalid(path, on.Values, "must be ordered"))
	}
	return errs
}

// validateSuccessPolicy validates the success policy of an indexed job.
//
// Differs: upstream panics if completions is not set.
func validateSuccessPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	all := spec.SuccessPolicy.Rules
	if len(all) == 0 {
		errs = append(errs, field.Required(path, "at least one rules must be specified when the successPolicy is specified"))
	}
	errs = append(errs, validateCount(path, len(all), maxPolicyRules)...)
	for i := range all {
		errs = append(errs, validateSuccessRule(&all[i], ptr.Deref(spec.Completions, 0), path.Index(i))...)
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		errs = append(errs, field.Required(path, "at least one of succeededCount or succeededIndexes must be specified"))
	}
	var named int32
	if text := rule.SucceededIndexes; text != nil {
		path := path.Child("succeededIndexes")
		if len(*text) > maxRuleIndexesText {
			errs = append(errs, field.TooLong(path, "", maxRuleIndexesText))
		}
		intervals, err := parseIndexes(*text, completions)
		if err != nil {
			errs = append(errs, field.Invalid(path, *text, fmt.Sprintf("error parsing succeededIndexes: %s", err)))
		}
		named = total(intervals)
	}
	if count := rule.SucceededCount; count != nil {
		errs = append(errs, validateNotNegative(path, countOf("succeededCount", count))...)
		const limit = "must be less than or equal to %d (the number of %s)"
		if *count > completions {
			errs = append(errs, field.Invalid(path.Child("succeededCount"), *count,
				fmt.Sprintf(limit, completions, "specified completions")))
		}
		if rule.SucceededIndexes != nil && *count > named {
			errs = append(errs, field.Invalid(path.Child("succeededCount"), *count,
				fmt.Sprintf(limit, named, "indexes in the specified succeededIndexes field")))
		}
	}
	return errs
}

// validateJobUpdate validates an update of a job. As upstream, it validates the spec twice.
//
// Upstream: pkg/apis/batch/validation ValidateJobUpdate.
func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	labelled := func(label string) bool { _, ok := old.Spec.Template.Labels[label]; return ok }
	spec, oldSpec := &job.Spec, &old.Spec
	errs := validateWholeJob(job, labelled(batchv1.JobNameLabel) && labelled(batchv1.ControllerUidLabel))
	errs = append(errs, validateSelectingJobSpec(spec)...)
	errs = append(errs, validateCompletionsUpdate(spec, oldSpec)...)
	errs = append(errs, immutable(spec.Selector, oldSpec.Selector, selectorPath)...)
	errs = append(errs, validateJobTemplateUpdate(job, old)...)
	errs = append(errs, immutable(spec.CompletionMode, oldSpec.CompletionMode, specPath.Child("completionMode"))...)
	errs = append(errs, immutable(spec.PodFailurePolicy, oldSpec.PodFailurePolicy, specPath.Child("podFailurePolicy"))...)
	errs = append(errs, immutable(spec.BackoffLimitPerIndex, oldSpec.BackoffLimitPerIndex, specPath.Child("backoffLimitPerIndex"))...)
	errs = append(errs, immutable(spec.ManagedBy, oldSpec.ManagedBy, specPath.Child("managedBy"))...)
	return append(errs, immutable(spec.SuccessPolicy, oldSpec.SuccessPolicy, specPath.Child("successPolicy"))...)
}

// validateCompletionsUpdate validates that only an indexed job changes its completions, together with
// its parallelism.
func validateCompletionsUpdate(spec, old *batchv1.JobSpec) field.ErrorList {
	path := specPath.Child("completions")
	if !isIndexed(spec) {
		return immutable(spec.Completions, old.Completions, path)
	}
	if spec.Completions == nil || ptr.Equal(spec.Completions, old.Completions) || *spec.Completions == *spec.Parallelism {
		return nil
	}
	return field.ErrorList{field.Invalid(path, spec.Completions, "can only be modified in tandem with spec.parallelism")}
}

// validateJobTemplateUpdate validates that the template changes only while the job is suspended and
// has no pods, and then only in what matters to the scheduler.
//
// Differs: the message about an immutable template has the fields of the API version; upstream's has
// those of its internal type.
func validateJobTemplateUpdate(job, old *batchv1.Job) field.ErrorList {
	suspended := ptr.Deref(old.Spec.Suspend, false)
	mutable := suspended && old.Status.Active == 0 &&
		(old.Status.StartTime == nil || jobCondition(old, batchv1.JobSuspended) == corev1.ConditionTrue)
	t, before := &job.Spec.Template, &old.Spec.Template
	if mutable {
		before = allowScheduling(t, before)
	}
	if !suspended || !mutable {
		return immutable(t, before, templatePath)
	}
	pod := before.Spec.DeepCopy()
	allowResources(t.Spec.Containers, pod.Containers)
	allowResources(t.Spec.InitContainers, pod.InitContainers)
	return immutable(t.Spec, *pod, field.NewPath("spec", "template.spec"))
}

// allowScheduling returns the old template with the new one's fields that matter to the scheduler.
func allowScheduling(t, old *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	old = old.DeepCopy()
	spec := &old.Spec
	switch affinity := t.Spec.Affinity; {
	case affinity == nil && spec.Affinity != nil:
		spec.Affinity.NodeAffinity = nil
		if reflect.ValueOf(*spec.Affinity).IsZero() {
			spec.Affinity = nil
		}
	case affinity != nil && spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: affinity.NodeAffinity}
	case affinity != nil:
		spec.Affinity.NodeAffinity = affinity.NodeAffinity
	}
	spec.NodeSelector, spec.Tolerations, spec.SchedulingGates = t.Spec.NodeSelector, t.Spec.Tolerations, t.Spec.SchedulingGates
	old.Labels, old.Annotations = t.Labels, t.Annotations
	return old
}

// allowResources gives the containers the resources that they have in the new list.
func allowResources(containers, old []corev1.Container) {
	if len(containers) != len(old) {
		return
	}
	for i := range containers {
		if containers[i].Name == old[i].Name {
			old[i].Resources = containers[i].Resources
		}
	}
}

// sameUncounted reports whether two jobs have the same pods that are not counted yet.
func sameUncounted(a, b *batchv1.Job) bool {
	return equality.Semantic.DeepEqual(a.Status.UncountedTerminatedPods, b.Status.UncountedTerminatedPods)
}
