package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim/trace"
)

// eventsMax is how many of the latest Kubernetes events a page shows.
const eventsMax = 100

// A World is what a page shows. Its methods are safe for concurrent use.
type World interface {
	// State returns the current state.
	State() State
	// History returns the actions to draw.
	History() History
	// Changes returns the version of the state, and a channel that is closed at the next change.
	Changes() (version int64, changed <-chan struct{})
	// Do executes an operation. That of a Live world is an event, or an act of a user.
	Do(op string) (Result, error)
}

// A Stepper is a World that a page controls. Errors of its methods describe invalid requests.
type Stepper interface {
	World
	Undo() (Result, error)            // replays all operations but the last
	Reset() (Result, error)           // discards all operations
	Load(text string) (Result, error) // replaces the world by a saved one
	Ops() []string                    // operations that lead to the current state
}

// A Result is the effect of an operation.
type Result struct {
	Advanced bool   `json:"advanced"` // at least one step ran
	Message  string `json:"message"`  // effect as text
}

// A State is a snapshot of a world.
type State struct {
	Version  int64     `json:"version"` // version of the state
	Setup    string    `json:"setup"`   // nodes and backend
	Time     string    `json:"time"`    // since the start: "1m30s"
	Objects  []Object  `json:"objects"`
	Events   []Event   `json:"events"`             // Kubernetes events, latest first
	Controls *Controls `json:"controls,omitempty"` // of a Stepped world only
	Targets  []Target  `json:"targets,omitempty"`  // of a Live world only: components and nodes
}

// An Object is an API object, or an object that still exists in a stale cache.
type Object struct {
	Key     string      `json:"key"`     // "about" parameter of the diagram; "" if no diagram shows it
	Name    string      `json:"name"`    // "claim default/data"
	State   string      `json:"state"`   // as trace.State returns it, with the size of a claim or volume
	Version string      `json:"version"` // its resourceVersion
	Reasons []string    `json:"reasons"` // why it is pending: warning events and errors
	Stale   []StaleCopy `json:"stale"`   // outdated copies in caches
}

// A StaleCopy is an outdated copy of an object in the cache of a component.
type StaleCopy struct {
	Component string `json:"component"`
	State     string `json:"state"`
	Version   string `json:"version"` // its resourceVersion; "": the cache has no copy
}

// An Event is a Kubernetes event.
type Event struct {
	Ago     string `json:"ago"` // "12s"
	Warning bool   `json:"warning"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	By      string `json:"by"`
	Count   int32  `json:"count"`
}

// resources are the listed resources, in order.
var resources = []string{"persistentvolumeclaims", "persistentvolumes", "volumeattachments", "pods", "nodes"}

// objectsOf returns the API objects of the listed resources.
func objectsOf(server *fake.Server) []Object {
	all := []Object{}
	events := storedEvents(server)
	for _, resource := range slices.Concat(resources, snapshotapi.Shown()) {
		if !server.Serves(resource) {
			continue // the world has no snapshots
		}
		for _, obj := range server.List(resource) {
			key := resource + "/" + obj.GetName()
			if namespace := obj.GetNamespace(); namespace != "" {
				key = resource + "/" + namespace + "/" + obj.GetName()
			}
			state := trace.State(obj.(runtime.Object))
			if size := trace.Size(obj.(runtime.Object)); size != "" {
				state += ", " + size
			}
			shown := key
			if !slices.Contains(resources, resource) {
				shown = "" // no diagram is about it
			}
			all = append(all, Object{
				Key: shown, Name: trace.Abbreviate(trace.ObjectName(key)), State: trace.Abbreviate(state),
				Version: obj.GetResourceVersion(), Reasons: reasonsOf(obj, events), Stale: []StaleCopy{},
			})
		}
	}
	return all
}

// reasonsOf returns why an object is pending: the latest warning of each reason, unless its component
// has reported a success since, and the error of an attachment.
func reasonsOf(obj fake.Object, events []*corev1.Event) []string {
	all := []string{}
	switch o := obj.(type) {
	case *corev1.Pod:
		if o.Status.Phase != corev1.PodPending && o.Status.Phase != "" {
			return all
		}
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == corev1.ClaimBound {
			return all
		}
	case *storagev1.VolumeAttachment:
		for _, failed := range []*storagev1.VolumeError{o.Status.AttachError, o.Status.DetachError} {
			if failed != nil {
				all = append(all, trace.Abbreviate(failed.Message))
			}
		}
		return all
	default:
		return all
	}
	succeeded, reported := map[string]bool{}, map[string]bool{}
	for _, e := range events { // latest first
		by := componentOf(e)
		switch {
		case e.InvolvedObject.UID != obj.GetUID() || succeeded[by]:
		case e.Type != corev1.EventTypeWarning:
			succeeded[by] = true
		case !reported[e.Reason]:
			reported[e.Reason] = true
			all = append(all, trace.Abbreviate(e.Reason+": "+e.Message))
		}
	}
	return all
}

// componentOf returns the component that reported an event.
func componentOf(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) }

// storedEvents returns the Kubernetes events, latest first.
func storedEvents(server *fake.Server) []*corev1.Event {
	var stored []*corev1.Event
	for _, obj := range server.List("events") {
		if e, ok := obj.(*corev1.Event); ok {
			stored = append(stored, e)
		}
	}
	slices.SortStableFunc(stored, func(a, b *corev1.Event) int {
		return cmp.Or(b.LastTimestamp.Compare(a.LastTimestamp.Time), cmp.Compare(revision(b), revision(a)))
	})
	return stored
}

// eventsOf returns the latest Kubernetes events, latest first.
func eventsOf(server *fake.Server, now time.Time) []Event {
	stored := storedEvents(server)
	all := []Event{}
	for _, e := range stored[:min(len(stored), eventsMax)] {
		object := strings.ToLower(e.InvolvedObject.Kind) + " " + e.InvolvedObject.Name
		all = append(all, Event{
			Ago:     now.Sub(e.LastTimestamp.Time).Truncate(time.Second).String(),
			Warning: e.Type == corev1.EventTypeWarning,
			Reason:  e.Reason, Object: trace.Abbreviate(object), Message: trace.Abbreviate(e.Message),
			By: componentOf(e), Count: max(1, e.Count),
		})
	}
	return all
}

// revision returns a sort key for resource versions of one server.
func revision(e *corev1.Event) string {
	const width = 20
	return strings.Repeat("0", max(0, width-len(e.ResourceVersion))) + e.ResourceVersion
}
