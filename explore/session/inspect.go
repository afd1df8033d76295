package session

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Option is something that could happen next.
type Option struct {
	Task        string   // who would do it, as "step ACTOR" takes it
	Description string   // what it would be: "hears that claim default/data has changed"
	Held        bool     // not as long as it is held
	Faults      []string // in which ways it can go wrong, if it is a call: as "fail FAULT" takes them, a driver's codes left out
}

// Next is what could happen next, in the ordinary order: the first that is not held is what "step" does. Where there is
// none, time moves on to the next timer, if there is any.
func (s *Session) Next() []Option {
	var all []Option
	for _, line := range s.host.Enabled() {
		actor, pending, calls := strings.Cut(line, ": ")
		option := Option{Task: actor, Held: s.strategy.isHeld(actor)}
		switch resource, delivers := strings.CutPrefix(taskWithin(actor), "cache "); {
		case calls:
			option.Description, option.Faults = describePending(pending), possibleFaults(pending)
		case delivers:
			option.Description = s.describeDelivery(trace.Process(actor), resource)
		default:
			option.Description = "takes up its next piece of work"
		}
		all = append(all, option)
	}
	return all
}

func taskWithin(actor string) string {
	_, strand, _ := strings.Cut(actor, "/")
	return strand
}

// possibleFaults are the ways in which a call can go wrong.
func possibleFaults(pending string) []string {
	kind, rest, _ := strings.Cut(pending, " ")
	verb, object, _ := strings.Cut(rest, " ")
	var all []string
	for _, fault := range sim.FaultKinds {
		if (sim.Fault{Kind: fault}).Applies(trace.Action{Kind: trace.Kind(kind), Verb: verb, Object: object}) {
			all = append(all, string(fault))
		}
	}
	return all
}

// describePending is a request in words: "wants to update claim default/data" for "api update persistentvolumeclaims/default/data".
func describePending(pending string) string {
	kind, rest, _ := strings.Cut(pending, " ")
	verb, object, _ := strings.Cut(rest, " ")
	switch trace.Kind(kind) {
	case trace.KindAPI:
		verb, part, within := strings.Cut(verb, "/")
		if within {
			part = "the " + part + " of "
		}
		return fmt.Sprintf("wants to %s %s%s", verb, part, trace.ObjectName(object))
	case trace.KindDriver:
		return "wants the driver to do " + verb
	case trace.KindWait:
		return "goes on: " + object + " is so"
	default:
		return "goes on"
	}
}

// describeDelivery is what a cache would hear of next.
func (s *Session) describeDelivery(part, resource string) string {
	stale, err := s.cluster.StaleObjects(part)
	at := slices.IndexFunc(stale, func(one fake.StaleObject) bool {
		of, _, _ := strings.Cut(one.Object, "/")
		return of == resource
	})
	switch {
	case err != nil || at < 0:
		return "lists the " + plural(trace.ObjectName(resource))
	case stale[at].Cached == nil:
		return "hears that " + trace.ObjectName(stale[at].Object) + " is there"
	default:
		return "hears of " + trace.ObjectName(stale[at].Object)
	}
}

// plural is the word for several of them: "storage classes".
func plural(noun string) string {
	if strings.HasSuffix(noun, "s") {
		return noun + "es"
	}
	return noun + "s"
}

// Held are the parts and actors that are held, in the order in which they were.
func (s *Session) Held() []string { return slices.Clone(s.strategy.held) }

// PendingFault is what "fail" said last, as it takes it, as long as no call has gone wrong in this way: "conflict pvcontroller".
// "": nothing.
func (s *Session) PendingFault() string {
	if s.strategy.fault.Kind == "" {
		return ""
	}
	return strings.TrimSpace(s.strategy.fault.String() + " " + s.strategy.faultTarget)
}

// PossibleEvents are what could befall the world now, each an operation: "crash pvcontroller". See [cluster.EventKinds].
func (s *Session) PossibleEvents() []string { return s.host.Events() }

// Steps counts the steps that the world has made. An operation after which there are no more than before has moved nothing.
func (s *Session) Steps() int { return s.host.Steps() }

// StaleComponent is a part of the world that believes something that is not so any more.
type StaleComponent struct {
	Component string
	Object    string // "claim default/data"
	Cached    string // as trace.State says it
	Version   string // the resourceVersion of which it has heard; "": it has heard of none
	Actual    string // as trace.State says it
}

// StaleComponents tells who has not heard yet how things are: of each part, in the order of the parts, the objects that are not in
// its caches as they are stored. Where nobody is named, everybody knows everything that concerns him.
func (s *Session) StaleComponents() []StaleComponent {
	var all []StaleComponent
	for _, part := range s.cluster.Components() {
		stale, err := s.cluster.StaleObjects(part)
		if err != nil {
			continue // it is no part any more
		}
		for _, one := range stale {
			about := StaleComponent{
				Component: part, Object: trace.Abbreviate(trace.ObjectName(one.Object)), Cached: state(one.Cached), Actual: state(one.Stored),
			}
			if one.Cached != nil {
				about.Version = one.Cached.GetResourceVersion()
			}
			all = append(all, about)
		}
	}
	return all
}

// state is that of an object; there may be none.
func state(obj fake.Object) string {
	if obj == nil {
		return trace.State(nil)
	}
	return trace.Abbreviate(trace.State(obj.(runtime.Object)))
}

// Object is one of the objects of the life of a volume.
type Object struct {
	Name    string // "claim default/data"
	State   string // as trace.State says it
	Version string // its resourceVersion
}

// Objects are the claims, volumes, pods and attachments, as the API server has them.
func (s *Session) Objects() []Object {
	var all []Object
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "pods", "volumeattachments"} {
		for _, obj := range s.cluster.Server().List(resource) {
			name := obj.GetName()
			if namespace := obj.GetNamespace(); namespace != "" {
				name = namespace + "/" + name
			}
			all = append(all, Object{Name: trace.Abbreviate(trace.ObjectName(resource + "/" + name)), State: state(obj), Version: obj.GetResourceVersion()})
		}
	}
	return all
}

// Events are what parts of the world have said of objects, as kubectl describe shows it, in the order of their names: the
// object, the reason and the message.
func (s *Session) Events() []string {
	var all []string
	for _, obj := range s.cluster.Server().List("events") {
		e, is := obj.(*corev1.Event)
		if !is {
			continue
		}
		of := e.InvolvedObject
		kind := strings.ToLower(of.Kind) + " " + of.Namespace + "/" + of.Name
		all = append(all, trace.Abbreviate(fmt.Sprintf("%s: %s %s: %s", kind, e.Type, e.Reason, e.Message)))
	}
	return all
}

// StateTable tells in a table how things are, and under each object who believes otherwise.
func (s *Session) StateTable() string {
	unaware := s.StaleComponents()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	tell := func(name string) {
		for _, one := range unaware {
			if one.Object == name {
				fmt.Fprintf(table, "   %s believes:\t%s\t%s\n", one.Component, one.Cached, versionSuffix(one.Version))
			}
		}
	}
	var told []string
	for _, o := range s.Objects() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", o.Name, o.State, versionSuffix(o.Version))
		tell(o.Name)
		told = append(told, o.Name)
	}
	for _, one := range unaware { // of what is not there any more
		if !slices.Contains(told, one.Object) {
			fmt.Fprintf(table, "%s\t%s\t\n", one.Object, one.Actual)
			tell(one.Object)
			told = append(told, one.Object)
		}
	}
	table.Flush()
	if text.Len() == 0 {
		return "there is nothing\n"
	}
	var lines strings.Builder
	for line := range strings.Lines(text.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return lines.String()
}

func versionSuffix(version string) string {
	if version == "" {
		return ""
	}
	return "(rv " + version + ")"
}
