package session

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// An Option is a task that can run next.
type Option struct {
	Task        string   // the argument of "step TASK"
	Description string   // its next action: "sees claim default/data modified"
	Held        bool     // the task is held
	Faults      []string // the faults that its call can have, as arguments of "fail FAULT" without the codes of a driver
}

// Next returns the tasks that can run next, in the default order. "step" runs the first one that is
// not held. If there is none, the clock advances to the next timer, if any.
func (s *Session) Next() []Option {
	var all []Option
	for _, line := range s.host.Enabled() {
		task, pending, calls := strings.Cut(line, ": ")
		option := Option{Task: task, Held: s.strategy.isHeld(task)}
		switch resource, delivers := strings.CutPrefix(taskWithin(task), "cache "); {
		case calls:
			option.Description, option.Faults = describePending(pending), possibleFaults(pending)
		case delivers:
			option.Description = s.describeDelivery(trace.Process(task), resource)
		default:
			option.Description = "starts its next piece of work"
		}
		all = append(all, option)
	}
	numberTasks(all)
	return all
}

// numberTasks numbers the tasks of the same name in their order: "provisioner/volumes#2".
func numberTasks(options []Option) {
	count, number := map[string]int{}, map[string]int{}
	for _, o := range options {
		count[o.Task]++
	}
	for i := range options {
		if name := options[i].Task; count[name] > 1 {
			number[name]++
			options[i].Task = fmt.Sprintf("%s#%d", name, number[name])
		}
	}
}

func taskWithin(task string) string {
	_, name, _ := strings.Cut(task, "/")
	return name
}

// possibleFaults returns the faults that a call can have.
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

// describePending describes a pending action: "will update claim default/data" for "api update
// persistentvolumeclaims/default/data".
func describePending(pending string) string {
	kind, rest, _ := strings.Cut(pending, " ")
	verb, object, _ := strings.Cut(rest, " ")
	switch trace.Kind(kind) {
	case trace.KindAPI:
		verb, component, within := strings.Cut(verb, "/")
		if within {
			component = "the " + component + " of "
		}
		return fmt.Sprintf("will %s %s%s", verb, component, trace.ObjectName(object))
	case trace.KindDriver:
		return "will call the driver: " + verb
	case trace.KindWait:
		return "resumes: " + object
	default:
		return "resumes"
	}
}

// describeDelivery describes the next delivery to a cache.
func (s *Session) describeDelivery(component, resource string) string {
	stale, err := s.cluster.StaleObjects(component)
	at := slices.IndexFunc(stale, func(one fake.StaleObject) bool {
		of, _, _ := strings.Cut(one.Object, "/")
		return of == resource
	})
	switch {
	case err != nil || at < 0:
		return "lists the " + plural(trace.ObjectName(resource))
	case stale[at].Cached == nil:
		return "sees " + trace.ObjectName(stale[at].Object) + " added"
	default:
		return "sees " + trace.ObjectName(stale[at].Object) + " changed"
	}
}

// plural returns the plural of a noun: "storage classes".
func plural(noun string) string {
	if strings.HasSuffix(noun, "s") {
		return noun + "es"
	}
	return noun + "s"
}

// Held returns the held components and tasks, in the order in which they were held.
func (s *Session) Held() []string { return slices.Clone(s.strategy.held) }

// PendingFault returns the argument of the last "fail" until a call has failed: "conflict
// pvcontroller". "" means none.
func (s *Session) PendingFault() string {
	if s.strategy.fault.Kind == "" {
		return ""
	}
	return strings.TrimSpace(s.strategy.fault.String() + " " + s.strategy.faultTarget)
}

// PossibleEvents returns the events that can be injected now. Each is an operation: "crash
// pvcontroller". See [cluster.EventKinds].
func (s *Session) PossibleEvents() []string { return s.host.Events() }

// Steps returns the number of steps since the set-up of the world. An operation that does not increase it
// ran no task.
func (s *Session) Steps() int { return s.host.Steps() - s.setupSteps }

// A StaleComponent is a component with a cached object whose actual state differs.
type StaleComponent struct {
	Component string
	Object    string // "claim default/data"
	Cached    string // as in Object
	Version   string // the cached resourceVersion; "": the object is not in the cache
	Actual    string // as in Object
}

// StaleComponents returns the stale cache entries of all components, in the order of the
// components. It is empty if every cache is up to date.
func (s *Session) StaleComponents() []StaleComponent {
	var all []StaleComponent
	for _, component := range s.cluster.Components() {
		stale, err := s.cluster.StaleObjects(component)
		if err != nil {
			continue // the component was removed
		}
		for _, one := range stale {
			about := StaleComponent{
				Component: component, Object: trace.Abbreviate(trace.ObjectName(one.Object)),
				Cached: state(one.Cached), Actual: state(one.Stored),
			}
			if one.Cached != nil {
				about.Version = one.Cached.GetResourceVersion()
			}
			all = append(all, about)
		}
	}
	return all
}

// state returns the state of an object, which may be nil.
func state(obj fake.Object) string {
	if obj == nil {
		return trace.State(nil)
	}
	words := trace.State(obj.(runtime.Object))
	if size := trace.Size(obj.(runtime.Object)); size != "" {
		words += ", " + size
	}
	return trace.Abbreviate(words)
}

// An Object is a claim, volume, pod, attachment, snapshot or content.
type Object struct {
	Name    string // "claim default/data"
	State   string // as returned by trace.State, with the size of a claim or volume
	Version string // its resourceVersion
}

// Objects returns the claims, volumes, pods, attachments and snapshots as stored in the API server.
func (s *Session) Objects() []Object {
	var all []Object
	for _, resource := range slices.Concat([]string{"persistentvolumeclaims", "persistentvolumes", "pods", "volumeattachments"}, snapshotapi.Shown()) {
		if !s.cluster.Server().Serves(resource) {
			continue // the world has no snapshots
		}
		for _, obj := range s.cluster.Server().List(resource) {
			name := obj.GetName()
			if namespace := obj.GetNamespace(); namespace != "" {
				name = namespace + "/" + name
			}
			all = append(all, Object{
				Name: trace.Abbreviate(trace.ObjectName(resource + "/" + name)), State: state(obj),
				Version: obj.GetResourceVersion(),
			})
		}
	}
	return all
}

// Events returns the API events, as kubectl describe prints them, in the order of their names: the
// object, the type, the reason and the message.
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

// StateTable returns a table of the objects and their states, with the stale cache entries below
// each object.
func (s *Session) StateTable() string {
	unaware := s.StaleComponents()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	tell := func(name string) {
		for _, one := range unaware {
			if one.Object == name {
				fmt.Fprintf(table, "   cached by %s:\t%s\t%s\n", one.Component, one.Cached, versionSuffix(one.Version))
			}
		}
	}
	var told []string
	for _, o := range s.Objects() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", o.Name, o.State, versionSuffix(o.Version))
		tell(o.Name)
		told = append(told, o.Name)
	}
	for _, one := range unaware { // of objects that no longer exist
		if !slices.Contains(told, one.Object) {
			fmt.Fprintf(table, "%s\t%s\t\n", one.Object, one.Actual)
			tell(one.Object)
			told = append(told, one.Object)
		}
	}
	table.Flush()
	if text.Len() == 0 {
		return "no objects\n"
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
