package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Smaller returns how the world of a failure could be smaller, in the words of the scenario's text:
// the components that took part, the nodes that did, and what users did not do. It is a guess from
// one run. nil: the run gives no hint. s has the schedule of the run.
func (r *Result) Smaller(s *Scenario) []string {
	var violation *invariant.Violation
	if r.Failure == nil || errors.As(r.Failure, &violation) && violation.Step <= r.SetupEnd {
		return nil
	}
	acting := r.acting(s)
	var words []string
	if kinds := r.componentsAmong(s, acting); s.Components == nil || len(kinds) < len(s.Components) {
		words = append(words, "components: "+cmp.Or(strings.Join(kinds, ", "), noComponents))
	}
	for _, c := range s.Extra {
		if !acting[c.Name] {
			words = append(words, "no component "+c.Name)
		}
	}
	if n := r.nodesUsed(cmp.Or(s.Nodes, 2)); n < cmp.Or(s.Nodes, 2) {
		words = append(words, fmt.Sprintf("nodes: %d", n))
	}
	for _, u := range s.Users {
		begun := 0
		for _, a := range r.acts {
			if a.user == u.Name && a.step < r.Trace.Steps() { // the last act of all may have begun at the end
				begun++
			}
		}
		switch left := len(u.Acts) - begun; {
		case left > 0 && begun == 0:
			words = append(words, "no user "+u.Name)
		case left > 0:
			words = append(words, fmt.Sprintf("no %q of user %s, nor what follows", u.Acts[begun], u.Name))
		}
	}
	return words
}

// Acting returns the components of the control plane that changed something after the set-up, or
// that the schedule concerns, as a scenario selects them. s has the schedule of the run.
func (r *Result) Acting(s *Scenario) []string {
	if kinds := r.componentsAmong(s, r.acting(s)); kinds != nil {
		return kinds
	}
	return []string{}
}

// acting returns the processes that changed something after the set-up, or that the schedule
// concerns.
func (r *Result) acting(s *Scenario) map[string]bool {
	acting := map[string]bool{}
	for _, one := range r.Trace.Records() {
		if one.Step > r.SetupEnd && (one.After != nil || one.Kind == trace.KindDriver && !one.Read) {
			acting[trace.Process(one.Task)] = true
		}
	}
	for _, d := range s.Schedule {
		if d.What == sim.DeviationEvent {
			_, of, _ := strings.Cut(d.Subject, " ")
			process, _, _ := strings.Cut(of, " ")
			acting[process] = true
			continue
		}
		acting[trace.Process(d.Subject)] = true
	}
	return acting
}

// componentsAmong returns the components of the control plane among processes, in the order of their
// start. Those of nodes are named once: "kubelet".
func (r *Result) componentsAmong(s *Scenario, processes map[string]bool) []string {
	var kinds []string
	for _, name := range r.components {
		kind, _, _ := strings.Cut(name, "(")
		own := slices.ContainsFunc(s.Extra, func(c cluster.Component) bool { return c.Name == name })
		if processes[name] && !own && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// nodesUsed returns the number of nodes that a run needs, of so many: those whose names occur after
// the set-up, and at least one.
func (r *Result) nodesUsed(nodes int) int {
	for n := nodes; n > 1; n-- {
		name := fmt.Sprintf("node-%d", n)
		if slices.ContainsFunc(r.Trace.Records(), func(one trace.Record) bool {
			return one.Step > r.SetupEnd && one.Kind != trace.KindDeliver && one.Kind != trace.KindTimer &&
				one.Kind != trace.KindWork && strings.Contains(one.String(), name)
		}) {
			return n
		}
	}
	return 1
}
