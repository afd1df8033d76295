package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// eventsMax is how many Kubernetes events a page shows at most: the last ones.
const eventsMax = 100

// World is what a page shows. Methods may be called concurrently.
type World interface {
	// State tells how things are.
	State() State
	// History is what has happened, to be drawn.
	History() History
	// Changes is the number of the present state, and a channel that is closed when there is another one.
	Changes() (version int64, changed <-chan struct{})
}

// Stepper is a World that can be moved by hand. The errors say what is wrong with what was asked for.
type Stepper interface {
	World
	Do(op string) (Result, error) // an operation of package session
	Undo() (Result, error)        // all operations but the last, from the beginning
	Reset() (Result, error)       // from the beginning
	Ops() []string                // what has been done
}

// Result tells what an operation has come to.
type Result struct {
	Advanced bool   `json:"moved"` // something has happened
	Message  string `json:"told"`  // what, in plain words
}

// State is how things are.
type State struct {
	Version  int64     `json:"version"` // the number of the state
	Setup    string    `json:"made"`    // what the world is made of
	Time     string    `json:"time"`    // since the world began: "1m30s"
	Objects  []Object  `json:"objects"`
	Events   []Event   `json:"events"`         // Kubernetes events, the last one first
	Controls *Controls `json:"hand,omitempty"` // of a world that is moved by hand only
}

// Object is one that is there, or that somebody believes to be.
type Object struct {
	Key     string      `json:"key"`     // as "about" of the diagram takes it; "" where there is no diagram about it
	Name    string      `json:"name"`    // "claim default/data"
	State   string      `json:"state"`   // as trace.State says it
	Version string      `json:"version"` // its resourceVersion
	Stale   []StaleCopy `json:"beliefs"` // of those who have not heard how it is
}

// StaleCopy is what a part of the world believes of an object that is not so any more.
type StaleCopy struct {
	Component string `json:"part"`
	State     string `json:"state"`
	Version   string `json:"version"` // the resourceVersion of which it has heard; "": of none
}

// Event is a Kubernetes event.
type Event struct {
	Ago     string `json:"ago"` // "12s"
	Warning bool   `json:"warning"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	By      string `json:"by"`
	Count   int32  `json:"count"`
}

// resources are those of the life of a volume, as a page lists them.
var resources = []string{"persistentvolumeclaims", "persistentvolumes", "volumeattachments", "pods", "nodes"}

// objectsOf are the objects of the life of a volume, as the API server has them.
func objectsOf(server *fake.Server) []Object {
	all := []Object{}
	for _, resource := range resources {
		for _, obj := range server.List(resource) {
			key := resource + "/" + obj.GetName()
			if namespace := obj.GetNamespace(); namespace != "" {
				key = resource + "/" + namespace + "/" + obj.GetName()
			}
			all = append(all, Object{
				Key: key, Name: trace.Abbreviate(trace.ObjectName(key)), State: trace.Abbreviate(trace.State(obj.(runtime.Object))),
				Version: obj.GetResourceVersion(), Stale: []StaleCopy{},
			})
		}
	}
	return all
}

// eventsOf are the last Kubernetes events, the last one first.
func eventsOf(server *fake.Server, now time.Time) []Event {
	var stored []*corev1.Event
	for _, obj := range server.List("events") {
		if e, is := obj.(*corev1.Event); is {
			stored = append(stored, e)
		}
	}
	slices.SortStableFunc(stored, func(a, b *corev1.Event) int {
		return cmp.Or(b.LastTimestamp.Compare(a.LastTimestamp.Time), cmp.Compare(revision(b), revision(a)))
	})
	all := []Event{}
	for _, e := range stored[:min(len(stored), eventsMax)] {
		object := strings.ToLower(e.InvolvedObject.Kind) + " " + e.InvolvedObject.Name
		all = append(all, Event{
			Ago: now.Sub(e.LastTimestamp.Time).Truncate(time.Second).String(), Warning: e.Type == corev1.EventTypeWarning,
			Reason: e.Reason, Object: trace.Abbreviate(object), Message: trace.Abbreviate(e.Message),
			By: cmp.Or(e.Source.Component, e.ReportingController), Count: max(1, e.Count),
		})
	}
	return all
}

// revision orders the versions of objects of one server: a longer number is a higher one.
func revision(e *corev1.Event) string {
	const width = 20
	return strings.Repeat("0", max(0, width-len(e.ResourceVersion))) + e.ResourceVersion
}
