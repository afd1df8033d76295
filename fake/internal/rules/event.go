package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the fields of an event that has an eventTime.
const (
	eventWordMaxLen = 128  // reportingInstance, action and reason
	eventNoteMaxLen = 1024 // message
)

// validateEvent validates an event that was written through the core group.
//
// Upstream: pkg/apis/core/validation legacyValidateEvent.
func validateEvent(event, _ *corev1.Event) field.ErrorList {
	return validateAnyEvent(event, "reportingComponent")
}

var involvedPath = field.NewPath("involvedObject", "namespace")

// validateAnyEvent validates that an event is in the namespace of its involved object. If the event
// has an eventTime, its reporter, action and reason are required.
func validateAnyEvent(event *corev1.Event, reporter string) field.ErrorList {
	var errs field.ErrorList
	about := event.InvolvedObject.Namespace
	path := involvedPath
	if event.EventTime.IsZero() {
		if about == "" && event.Namespace != metav1.NamespaceDefault || about != "" && about != event.Namespace {
			errs = append(errs, field.Invalid(path, about, "does not match event.namespace"))
		}
		return errs
	}
	if about == "" && event.Namespace != metav1.NamespaceDefault && event.Namespace != metav1.NamespaceSystem {
		errs = append(errs, field.Invalid(path, about, "does not match event.namespace"))
	}
	path = field.NewPath(reporter)
	errs = append(errs, requireSome(path, len(event.ReportingController))...)
	errs = append(errs, validateQualified(event.ReportingController, path)...)
	for _, f := range []named{
		{"reportingInstance", event.ReportingInstance}, {"action", event.Action}, {"reason", event.Reason},
	} {
		path := field.NewPath(f.name)
		errs = append(errs, requireSome(path, len(f.value))...)
		errs = append(errs, validateLen(f.value, eventWordMaxLen, path)...)
	}
	return append(errs, validateLen(event.Message, eventNoteMaxLen, field.NewPath("message"))...)
}

func validateLen(s string, limit int, path *field.Path) field.ErrorList {
	if len(s) > limit {
		return field.ErrorList{field.Invalid(path, "", fmt.Sprintf("can have at most %v characters", limit))}
	}
	return nil
}

// validateNewEvent validates an event that is created through events.k8s.io: it must have an
// eventTime.
//
// Upstream: pkg/apis/core/validation ValidateEventCreate.
func validateNewEvent(event, _ *corev1.Event) field.ErrorList {
	const unsetMsg = "needs to be unset"
	errs := validateAnyEvent(event, "reportingController")
	errs = append(errs, validateSeries(event.Series)...)
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", event.Type)))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()},
		{"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0},
		{"source", event.Source != corev1.EventSource{}},
	} {
		if f.set {
			errs = append(errs, field.Invalid(field.NewPath(f.name), "", unsetMsg))
		}
	}
	return errs
}

func validateSeries(series *corev1.EventSeries) field.ErrorList {
	if series == nil {
		return nil
	}
	var errs field.ErrorList
	if series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// validateNewEventUpdate validates an update of an event through events.k8s.io: only its series may
// change.
//
// Upstream: pkg/apis/core/validation ValidateEventUpdate, which checks reason and action twice.
func validateNewEventUpdate(event, old *corev1.Event) field.ErrorList {
	errs := validateAnyEvent(event, "reportingController")
	if event.Series != nil && (old.Series == nil || *event.Series != *old.Series) {
		errs = append(errs, validateSeries(event.Series)...)
	}
	for _, f := range []struct {
		name       string
		value, old any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject},
		{"reason", event.Reason, old.Reason},
		{"message", event.Message, old.Message},
		{"source", event.Source, old.Source},
		{"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count},
		{"reason", event.Reason, old.Reason},
		{"type", event.Type, old.Type},
		{"eventTime", truncateMicro(event.EventTime), truncateMicro(old.EventTime)},
		{"action", event.Action, old.Action},
		{"action", event.Action, old.Action},
		{"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, immutable(f.value, f.old, field.NewPath(f.name))...)
	}
	return errs
}

// truncateMicro drops what the wire does not carry of a time.
func truncateMicro(t metav1.MicroTime) metav1.MicroTime {
	return metav1.MicroTime{Time: t.Truncate(time.Microsecond).UTC()}
}
