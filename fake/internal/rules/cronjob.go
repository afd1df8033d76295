package rules

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/cronschedule"
)

// This file validates cron jobs.
//
// Upstream: pkg/apis/batch/validation ValidateCronJobCreate, ValidateCronJobUpdate (v1.36).

// maxCronJobName is the longest name: that of a job has eleven characters more.
const maxCronJobName = utilvalidation.DNS1123LabelMaxLength - 11

func validateCronJob(c, _ *batchv1.CronJob) field.ErrorList {
	errs := validateCronJobSpec(&c.Spec, nil)
	if len(c.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(metaPath.Child("name"), c.Name, "must be no more than 52 characters"))
	}
	return errs
}

func validateCronJobUpdate(c, old *batchv1.CronJob) field.ErrorList {
	return validateCronJobSpec(&c.Spec, &old.Spec)
}

// validateCronJobSpec validates a spec. old is nil at creation.
func validateCronJobSpec(spec, old *batchv1.CronJobSpec) field.ErrorList {
	errs := validateSchedule(spec, old != nil && hasZone(old.Schedule), specPath.Child("schedule"))
	errs = append(errs, validateNotNegative(specPath, countOf("startingDeadlineSeconds", spec.StartingDeadlineSeconds))...)
	if old == nil || !ptr.Equal(old.TimeZone, spec.TimeZone) {
		errs = append(errs, validateTimeZone(spec.TimeZone, specPath.Child("timeZone"))...)
	}
	errs = append(errs, oneOf(spec.ConcurrencyPolicy, specPath.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	t, path := &spec.JobTemplate.Spec, specPath.Child("jobTemplate", "spec")
	errs = append(errs, validateJobSpec(t, path)...)
	if t.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), t.Selector, "`selector` will be auto-generated"))
	}
	if ptr.Deref(t.ManualSelector, false) {
		errs = append(errs, field.NotSupported(path.Child("manualSelector"), t.ManualSelector, []string{"nil", "false"}))
	}
	return append(errs, validateNotNegative(specPath,
		countOf("successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit),
		countOf("failedJobsHistoryLimit", spec.FailedJobsHistoryLimit))...)
}

// hasZone reports whether a schedule names a time zone, which only older ones may.
func hasZone(schedule string) bool { return strings.Contains(schedule, "TZ") }

func validateSchedule(spec *batchv1.CronJobSpec, mayHaveZone bool, path *field.Path) field.ErrorList {
	if spec.Schedule == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if _, err := cronschedule.Parse(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	switch {
	case !hasZone(spec.Schedule):
	case !mayHaveZone:
		errs = append(errs, field.Invalid(path, spec.Schedule,
			"cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case spec.TimeZone != nil:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// zoneWord is a word of the name of a time zone.
var zoneWord = regexp.MustCompile(`^[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}$`)

func validateTimeZone(zone *string, path *field.Path) field.ErrorList {
	if zone == nil {
		return nil
	}
	if *zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	for _, word := range strings.Split(*zone, "/") {
		if word == "." || word == ".." || !zoneWord.MatchString(word) {
			return field.ErrorList{field.Invalid(path, zone, fmt.Sprintf("unknown time zone %s", *zone))}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*zone, "Local") {
		errs = append(errs, field.Invalid(path, zone,
			"timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}
