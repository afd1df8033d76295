package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Controls are the operations that a Stepped world offers, and those executed so far.
type Controls struct {
	Next      []Option `json:"next"`      // possible next steps, in the default order
	Targets   []Target `json:"targets"`   // components and nodes
	Other     []string `json:"other"`     // operations that inject other events
	Faults    []string `json:"faults"`    // faults that the next call can meet
	NextFault string   `json:"nextFault"` // fault of the next call; "": none
	Held      []string `json:"held"`
	Story     string   `json:"story"`     // operations and their effects as text
	Ops       []string `json:"ops"`       // operations so far, without headers
	Violation string   `json:"violation"` // first violated rule with its message; "": none
}

// An Option is a possible next step.
type Option struct {
	Task        string   `json:"task"`        // as an argument of "step"
	Hold        string   `json:"hold"`        // as an argument of "hold": all tasks of this name
	Label       string   `json:"label"`       // the task in words, with a number if others have its name
	Description string   `json:"description"` // what the step does
	Held        string   `json:"held"`        // what it is held by, as an argument of "release"; "": not held
	Faults      []string `json:"faults"`      // faults that its call can meet, as arguments of "fail"
}

// A Target is a component, or a node with its driver.
type Target struct {
	Name      string   `json:"name"`
	Component bool     `json:"component"` // it is a component and can be held
	Held      bool     `json:"held"`
	Ops       []string `json:"ops"` // operations that inject an event into it
}

// faultCodes are the gRPC codes offered for injected driver faults.
var faultCodes = map[string][]string{
	string(sim.FaultDriver):     {"Unavailable", "ResourceExhausted", "Internal"},
	string(sim.FaultDriverLost): {"DeadlineExceeded"},
}

// withCodes expands driver faults into one fault per code.
func withCodes(faults []string) []string {
	all := []string{}
	for _, fault := range faults {
		if len(faultCodes[fault]) == 0 {
			all = append(all, fault)
		}
		for _, code := range faultCodes[fault] {
			all = append(all, fault+" "+code)
		}
	}
	return all
}

// newControls returns the controls of a session after the given operations.
func newControls(s *session.Session, ops []string) *Controls {
	c := &Controls{Next: []Option{}, NextFault: s.PendingFault(), Held: s.Held(), Story: s.Story(), Ops: ops}
	if violation := s.Violation(); violation != nil {
		c.Violation = fmt.Sprint(violation)
	}
	for _, fault := range sim.FaultKinds {
		c.Faults = append(c.Faults, withCodes([]string{string(fault)})...)
	}
	for _, o := range s.Next() {
		name := trace.TrimTaskNumber(o.Task)
		held := ""
		if o.Held {
			held = trace.Process(o.Task)
			if slices.Contains(c.Held, name) {
				held = name
			}
		}
		c.Next = append(c.Next, Option{
			Task: o.Task, Hold: name, Label: trace.DescribeTask(o.Task) + o.Task[len(name):],
			Description: trace.Abbreviate(o.Description), Held: held, Faults: withCodes(o.Faults),
		})
	}
	distinguishLabels(c.Next)
	c.addEvents(s)
	return c
}

// distinguishLabels labels operations of one name on different volumes by their whole names.
func distinguishLabels(options []Option) {
	count := map[string]int{}
	for _, o := range options {
		count[o.Label]++
	}
	for i := range options {
		if o := &options[i]; count[o.Label] > 1 {
			o.Label = trace.Abbreviate(o.Task)
		}
	}
}

// addEvents groups the possible events by target.
func (c *Controls) addEvents(s *session.Session) {
	c.Targets, c.Other = targetsOf(s.Cluster(), s.PossibleEvents())
	for i := range c.Targets {
		t := &c.Targets[i]
		t.Held = t.Component && slices.Contains(c.Held, t.Name)
	}
}

// targetsOf groups events by the components and nodes of a cluster. other has the rest.
func targetsOf(c *cluster.Cluster, events []string) (targets []Target, other []string) {
	other = []string{}
	index := map[string]int{}
	add := func(t Target) {
		index[t.Name] = len(targets)
		targets = append(targets, t)
	}
	for _, name := range c.Components() {
		add(Target{Name: name, Component: true, Ops: []string{}})
	}
	for _, node := range c.Server().List("nodes") {
		add(Target{Name: node.GetName(), Ops: []string{}})
	}
	for _, op := range events {
		words := strings.Fields(op)
		target := ""
		if len(words) > 1 {
			target = words[1]
		}
		node, isDriver := strings.CutPrefix(target, "driver(")
		if isDriver { // a driver is listed with its node
			target = strings.TrimSuffix(node, ")")
		}
		at, known := index[target]
		if !known {
			other = append(other, op)
			continue
		}
		targets[at].Ops = append(targets[at].Ops, op)
	}
	return targets, other
}
