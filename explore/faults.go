package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// restarts runs every schedule in which one process crashes once, before or after one of its calls
// in the default order, with fresh lists and with a list that is one or two events old. If fault
// specs name processes that crash, only those crash.
func (e *search) restarts() error {
	steps := map[string][]int{} // by process: where it may crash
	for _, c := range e.calls {
		if c.user {
			continue
		}
		for _, at := range []int{c.step, c.step + 1} {
			if at <= e.defaultRun.Steps && !slices.Contains(steps[c.process], at) {
				steps[c.process] = append(steps[c.process], at)
			}
		}
	}
	events, err := e.possibleEvents()
	if err != nil || len(events) == 0 {
		return err
	}
	for _, lagging := range []bool{false, true} {
		for _, event := range events[0] {
			verb, component, _ := strings.Cut(event, " ")
			component, _, with := strings.Cut(component, " with ")
			if verb != crashEvent || with != lagging || !e.crashes(component) {
				continue
			}
			for _, at := range steps[component] {
				if err := e.tryIfMine(sim.Deviation{Step: at, What: sim.DeviationEvent, Subject: event}); err != nil {
					return err
				}
			}
		}
	}
	e.report.Complete = "no failure with one restart at a call of the default order"
	return nil
}

// crashes reports whether a process may crash.
func (e *search) crashes(component string) bool {
	named := slices.ContainsFunc(e.faultSpecs, func(r sim.FaultSpec) bool { return r.Name == crashEvent })
	return !named || e.matchesSpec(crashEvent, component)
}

// tryIfMine runs a schedule of one deviation if it belongs to this shard.
func (e *search) tryIfMine(d sim.Deviation) error {
	if !e.isMine() {
		return e.goOn(nil)
	}
	_, _, err := e.try(sim.Schedule{d})
	return e.goOn(err)
}

// possibleEvents returns the events that can be injected before each step of the default order.
func (e *search) possibleEvents() ([][]string, error) {
	f := &eventCollector{}
	_, err := e.runUncounted(f)
	return f.events, err
}

// An eventCollector follows the default order and records the possible events.
type eventCollector struct{ events [][]string }

// Decide records the possible events.
func (f *eventCollector) Decide(d *sim.Decision) sim.Move {
	f.events = append(f.events, d.Events())
	return sim.Move{}
}

// faults runs every schedule with one of the fault specs applied once: a call of the default order
// fails, or an event is injected at one of its steps.
func (e *search) faults() error {
	var events []string
	for _, r := range e.faultSpecs {
		fault, err := sim.ParseFault(r.Name)
		if err != nil {
			if !slices.Contains(events, r.Name) && (r.Name != crashEvent || !e.cfg.Restarts) {
				events = append(events, r.Name)
			}
			continue
		}
		for _, c := range e.calls {
			if !c.user && fault.Applies(c.action) && specMatches(r, c) {
				if err := e.tryIfMine(sim.Deviation{Step: c.step, What: fault.String()}); err != nil {
					return err
				}
			}
		}
	}
	if err := e.injectEach(events); err != nil {
		return err
	}
	e.report.Complete = fmt.Sprintf("no failure with one of %s", e.faultSpecs)
	return nil
}

func specMatches(r sim.FaultSpec, c call) bool {
	return r.Target == "" || strings.HasPrefix(c.task, r.Target) || strings.HasPrefix(c.action.Verb, r.Target)
}

// injectEach runs every schedule in which an event with one of the verbs is injected once.
func (e *search) injectEach(verbs []string) error {
	if len(verbs) == 0 {
		return nil
	}
	events, err := e.possibleEvents()
	if err != nil {
		return err
	}
	for _, verb := range verbs {
		for i := range events {
			for _, event := range events[i] {
				is, of, _ := strings.Cut(event, " ")
				if is != verb || !e.matchesSpec(verb, of) {
					continue
				}
				if err := e.tryIfMine(sim.Deviation{
					Step: i + 1, What: sim.DeviationEvent,
					Subject: event,
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// matchesSpec reports whether a fault spec covers an event.
func (e *search) matchesSpec(verb, of string) bool {
	return slices.ContainsFunc(e.faultSpecs, func(r sim.FaultSpec) bool {
		return r.Name == verb && (r.Target == "" || of == r.Target || strings.HasPrefix(of, r.Target+" "))
	})
}
