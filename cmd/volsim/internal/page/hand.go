package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Hand is what somebody can do who moves a world by hand, and has done.
type Hand struct {
	Next     []Option `json:"next"`     // what could happen next, in the ordinary order
	Parts    []Part   `json:"parts"`    // that there are
	Other    []string `json:"other"`    // operations: what else could befall the world
	Failures []string `json:"failures"` // that the next call can be made to go wrong by
	Failing  string   `json:"failing"`  // how it will; "": it will not
	Held     []string `json:"held"`
	Story    string   `json:"story"`  // what has been done and what came of it, in plain words
	Ops      []string `json:"ops"`    // what has been done, other than to say what the world is made of
	Broken   string   `json:"broken"` // the first rule that was broken, and how; "": none
}

// Option is something that could happen next.
type Option struct {
	Actor  string   `json:"actor"`  // as "step" takes it
	Who    string   `json:"who"`    // the same, in words
	Words  string   `json:"words"`  // what it would do
	Held   string   `json:"held"`   // what it is held by, as "release" takes it; "": it is not
	Faults []string `json:"faults"` // by which it can go wrong, as "fail" takes them
}

// Part is a component, a node, or its driver.
type Part struct {
	Name string   `json:"name"`
	Part bool     `json:"part"` // it is a component: it can be held
	Held bool     `json:"held"`
	Ops  []string `json:"ops"` // what can befall it now
}

// codes are those that drivers are made to fail with from a page.
var codes = map[string][]string{
	string(sim.FaultDriver):     {"Unavailable", "ResourceExhausted", "Internal"},
	string(sim.FaultDriverLost): {"DeadlineExceeded"},
}

// coded gives each fault of drivers its codes.
func coded(faults []string) []string {
	all := []string{}
	for _, fault := range faults {
		if len(codes[fault]) == 0 {
			all = append(all, fault)
		}
		for _, code := range codes[fault] {
			all = append(all, fault+" "+code)
		}
	}
	return all
}

// newHand is what can be done in a world, and was.
func newHand(s *session.Session, ops []string) *Hand {
	h := &Hand{Next: []Option{}, Failing: s.Failing(), Held: s.Held(), Story: s.Story(), Ops: ops}
	if broken := s.Broken(); broken != nil {
		h.Broken = fmt.Sprint(broken)
	}
	for _, fault := range sim.FaultKinds {
		h.Failures = append(h.Failures, coded([]string{string(fault)})...)
	}
	for _, o := range s.Next() {
		held := ""
		if o.Held {
			held = trace.Component(o.Actor)
			if slices.Contains(h.Held, o.Actor) {
				held = o.Actor
			}
		}
		h.Next = append(h.Next, Option{o.Actor, trace.Strand(o.Actor), trace.Short(o.Words), held, coded(o.Faults)})
	}
	h.befall(s)
	return h
}

// befall sorts what could befall the world by what it would befall.
func (h *Hand) befall(s *session.Session) {
	h.Other = []string{}
	place := map[string]int{}
	add := func(p Part) {
		place[p.Name] = len(h.Parts)
		h.Parts = append(h.Parts, p)
	}
	for _, name := range s.Cluster().Parts() {
		add(Part{Name: name, Part: true, Held: slices.Contains(h.Held, name), Ops: []string{}})
	}
	for _, node := range s.Cluster().Server().List("nodes") {
		add(Part{Name: node.GetName(), Ops: []string{}})
	}
	for _, op := range s.Misfortunes() {
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
		h.Parts[at].Ops = append(h.Parts[at].Ops, op)
	}
}
