package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Controls is what somebody can do who moves a world by hand, and has done.
type Controls struct {
	Next      []Option `json:"next"`     // what could happen next, in the ordinary order
	Targets   []Target `json:"parts"`    // that there are
	Other     []string `json:"other"`    // operations: what else could befall the world
	Faults    []string `json:"failures"` // that the next call can be made to go wrong by
	NextFault string   `json:"failing"`  // how it will; "": it will not
	Held      []string `json:"held"`
	Story     string   `json:"story"`  // what has been done and what came of it, in plain words
	Ops       []string `json:"ops"`    // what has been done, other than to say what the world is made of
	Violation string   `json:"broken"` // the first rule that was broken, and how; "": none
}

// Option is something that could happen next.
type Option struct {
	Task        string   `json:"actor"`  // as "step" takes it
	Label       string   `json:"who"`    // the same, in words
	Description string   `json:"words"`  // what it would do
	Held        string   `json:"held"`   // what it is held by, as "release" takes it; "": it is not
	Faults      []string `json:"faults"` // by which it can go wrong, as "fail" takes them
}

// Target is a component, a node, or its driver.
type Target struct {
	Name      string   `json:"name"`
	Component bool     `json:"part"` // it is a component: it can be held
	Held      bool     `json:"held"`
	Ops       []string `json:"ops"` // what can befall it now
}

// faultCodes are those that drivers are made to fail with from a page.
var faultCodes = map[string][]string{
	string(sim.FaultDriver):     {"Unavailable", "ResourceExhausted", "Internal"},
	string(sim.FaultDriverLost): {"DeadlineExceeded"},
}

// withCodes gives each fault of drivers its codes.
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

// newControls is what can be done in a world, and was.
func newControls(s *session.Session, ops []string) *Controls {
	h := &Controls{Next: []Option{}, NextFault: s.PendingFault(), Held: s.Held(), Story: s.Story(), Ops: ops}
	if broken := s.Violation(); broken != nil {
		h.Violation = fmt.Sprint(broken)
	}
	for _, fault := range sim.FaultKinds {
		h.Faults = append(h.Faults, withCodes([]string{string(fault)})...)
	}
	for _, o := range s.Next() {
		held := ""
		if o.Held {
			held = trace.Process(o.Task)
			if slices.Contains(h.Held, o.Task) {
				held = o.Task
			}
		}
		h.Next = append(h.Next, Option{o.Task, trace.DescribeTask(o.Task), trace.Abbreviate(o.Description), held, withCodes(o.Faults)})
	}
	h.addEvents(s)
	return h
}

// addEvents sorts what could befall the world by what it would befall.
func (h *Controls) addEvents(s *session.Session) {
	h.Other = []string{}
	place := map[string]int{}
	add := func(p Target) {
		place[p.Name] = len(h.Targets)
		h.Targets = append(h.Targets, p)
	}
	for _, name := range s.Cluster().Components() {
		add(Target{Name: name, Component: true, Held: slices.Contains(h.Held, name), Ops: []string{}})
	}
	for _, node := range s.Cluster().Server().List("nodes") {
		add(Target{Name: node.GetName(), Ops: []string{}})
	}
	for _, op := range s.PossibleEvents() {
		words := strings.Fields(op)
		of := ""
		if len(words) > 1 {
			of = words[1]
		}
		driven, isDriver := strings.CutPrefix(of, "driver(")
		if isDriver { // the driver of a node is listed with it
			of = strings.TrimSuffix(driven, ")")
		}
		at, known := place[of]
		if !known {
			h.Other = append(h.Other, op)
			continue
		}
		h.Targets[at].Ops = append(h.Targets[at].Ops, op)
	}
}
