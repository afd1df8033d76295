package fake

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// newEventsView returns the kind that serves the events of the core group as those of
// events.k8s.io.
//
// Upstream: pkg/apis/events/v1/conversion.go.
func newEventsView(of *kind) *kind {
	k := newKind(strategy[*eventsv1.Event]{
		resource: "events", gvk: eventsv1.SchemeGroupVersion.WithKind("Event"), namespaced: true, short: []string{"ev"},
		allowUnconditionalUpdate: true, allowCreateOnUpdate: true,
		deleteReturnsStatus: true, fieldError: unsupportedField,
	}, func(m metav1.ListMeta, items []eventsv1.Event) runtime.Object {
		return &eventsv1.EventList{ListMeta: m, Items: items}
	})
	k.id, k.base = tableID("events.k8s.io", "events"), strictEvents(of, k)
	field := selectable(map[string]func(*corev1.Event) string{
		"regarding.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"regarding.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
		"regarding.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"regarding.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
		"regarding.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
		"regarding.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
		"regarding.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                    func(e *corev1.Event) string { return e.Reason },
		"reportingController":       func(e *corev1.Event) string { return e.ReportingController },
		"type":                      func(e *corev1.Event) string { return e.Type },
	})
	k.field = func(obj Object, label string) (string, bool) {
		if shown, ok := obj.(*eventsv1.Event); ok {
			obj = fromEventsV1(shown)
		}
		return field(obj, label)
	}
	k.fromStored = func(stored Object) (Object, error) { return toEventsV1(stored.(*corev1.Event)), nil }
	k.toStored = func(shown, _ Object) (Object, error) { return fromEventsV1(shown.(*eventsv1.Event)), nil }
	return k
}

// strictEvents returns the kind of core events with the rules for writes through events.k8s.io.
//
// Upstream: pkg/registry/core/event Strategy.Validate, which depends on the version of the request.
func strictEvents(of, view *kind) *kind {
	k := *of
	k.gvk, k.invalid = view.gvk, of.gvk.GroupKind()
	k.validateCreate = adaptValidate(rules.EventV1.ValidateCreate)
	k.validateUpdate = adaptValidate(rules.EventV1.ValidateUpdate)
	return &k
}

func toEventsV1(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Action: e.Action, Reason: e.Reason, Regarding: e.InvolvedObject,
		Related: e.Related, Note: e.Message, Type: e.Type, DeprecatedSource: e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

func fromEventsV1(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Action: e.Action, Reason: e.Reason, InvolvedObject: e.Regarding,
		Related: e.Related, Message: e.Note, Type: e.Type, Source: e.DeprecatedSource,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}
