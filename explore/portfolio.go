package explore

import (
	"cmp"
	"strings"
)

// drawn are the strategies of the schedules that a portfolio draws, in turn.
var drawn = []Strategy{POS, Walk, POS, PCT}

// portfolio runs the systematic searches. After each of their schedules it draws one, and when they
// have ended, all others. With a corpus it also varies a schedule of the corpus after every second one
// that it draws. Most defects are found by one kind of schedule much earlier than by another,
// so that the first of each kind come first.
func (e *search) portfolio() error {
	var complete []string
	stage := func(search func() error) error {
		e.report.Complete = ""
		err := search()
		if e.report.Complete != "" {
			complete = append(complete, e.report.Complete)
		}
		return err
	}
	depth := cmp.Or(e.cfg.Depth, 1)
	stages := []func() error{func() error { return e.holds(1) }}
	if len(e.faultSpecs) > 0 {
		stages = append(stages, e.faults)
	}
	if e.cfg.Restarts {
		stages = append(stages, e.restarts)
	}
	stages = append(stages, e.longHolds)
	if depth > 1 {
		stages = append(stages, func() error { return e.holdsFrom(2, depth) })
	}
	seed := e.cfg.Seed
	draw := func() error {
		n := seed - e.cfg.Seed
		seed++
		return e.drawOne(drawn[n%uint64(len(drawn))], seed)
	}
	if e.corpus != nil {
		if err := e.readCorpus(); err != nil {
			return err
		}
		drawOnly := draw
		draw = func() error {
			if err := drawOnly(); err != nil || seed%2 == 1 {
				return err
			}
			return e.vary()
		}
	}
	e.between = draw
	defer func() { e.between = nil }()
	for _, s := range stages {
		if err := stage(s); err != nil {
			e.report.Complete = strings.Join(complete, "; ")
			return err
		}
	}
	e.report.Complete = strings.Join(complete, "; ")
	for {
		if err := draw(); err != nil {
			return err
		}
	}
}
