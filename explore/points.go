package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim"
)

// restarts runs every schedule in which one part crashes once, before or after one of its calls in the ordinary course; with
// fresh lists, and with one that is one or two events old. Where risks name parts that crash, it is those.
func (e *search) restarts() error {
	steps := map[string][]int{} // by part: where it may crash
	for _, c := range e.calls {
		if c.user {
			continue
		}
		for _, at := range []int{c.step, c.step + 1} {
			if at <= e.ordinary.Steps && !slices.Contains(steps[c.component], at) {
				steps[c.component] = append(steps[c.component], at)
			}
		}
	}
	events, err := e.foresee()
	if err != nil || len(events) == 0 {
		return err
	}
	for _, lagging := range []bool{false, true} {
		for _, event := range events[0] {
			verb, part, _ := strings.Cut(event, " ")
			part, _, with := strings.Cut(part, " with ")
			if verb != "crash" || with != lagging || !e.crashes(part) {
				continue
			}
			for _, at := range steps[part] {
				if err := e.tryMine(sim.Deviation{Step: at, What: sim.Event, Subject: event}); err != nil {
					return err
				}
			}
		}
	}
	e.report.Complete = "no failure with one restart at a call of the ordinary course"
	return nil
}

// crashes tells whether a part may crash.
func (e *search) crashes(part string) bool {
	named := slices.ContainsFunc(e.risks, func(r sim.Risk) bool { return r.Name == "crash" })
	return !named || e.risked("crash", part)
}

// tryMine runs a schedule of one deviation, if it is this shard's.
func (e *search) tryMine(d sim.Deviation) error {
	if !e.mine() {
		return nil
	}
	_, _, err := e.try(sim.Schedule{d})
	return err
}

// foresee lists what could befall the world before each step of the ordinary course.
func (e *search) foresee() ([][]string, error) {
	f := &foreseeing{}
	_, err := e.unreported(f)
	return f.events, err
}

// foreseeing takes the ordinary course, and notes what else could happen.
type foreseeing struct{ events [][]string }

// Decide notes what could befall the world.
func (f *foreseeing) Decide(d *sim.Decision) sim.Move {
	f.events = append(f.events, d.Events())
	return sim.Move{}
}

// faults runs every schedule in which one of the risks comes true once: a call of the ordinary course goes wrong, or an
// event befalls the world at one of its steps.
func (e *search) faults() error {
	var events []string
	for _, r := range e.risks {
		fault, err := sim.ParseFault(r.Name)
		if err != nil {
			if !slices.Contains(events, r.Name) && (r.Name != "crash" || !e.cfg.Restarts) {
				events = append(events, r.Name)
			}
			continue
		}
		for _, c := range e.calls {
			if !c.user && fault.Applies(c.action) && threatens(r, c) {
				if err := e.tryMine(sim.Deviation{Step: c.step, What: fault.String()}); err != nil {
					return err
				}
			}
		}
	}
	if err := e.eventsOf(events); err != nil {
		return err
	}
	e.report.Complete = fmt.Sprintf("no failure with one of %s", e.risks)
	return nil
}

func threatens(r sim.Risk, c call) bool {
	return r.Of == "" || strings.HasPrefix(c.actor, r.Of) || strings.HasPrefix(c.action.Verb, r.Of)
}

// eventsOf runs every schedule in which an event with one of the verbs befalls the world once.
func (e *search) eventsOf(verbs []string) error {
	if len(verbs) == 0 {
		return nil
	}
	events, err := e.foresee()
	if err != nil {
		return err
	}
	for _, verb := range verbs {
		for i := range events {
			for _, event := range events[i] {
				is, of, _ := strings.Cut(event, " ")
				if is != verb || !e.risked(verb, of) {
					continue
				}
				if err := e.tryMine(sim.Deviation{Step: i + 1, What: sim.Event, Subject: event}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// risked tells whether an event is of what a risk names.
func (e *search) risked(verb, of string) bool {
	return slices.ContainsFunc(e.risks, func(r sim.Risk) bool {
		return r.Name == verb && (r.Of == "" || of == r.Of || strings.HasPrefix(of, r.Of+" "))
	})
}
