package main

import (
	"fmt"
	"io"
	"time"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/internal/cli"
)

// Intervals of the progress line. A terminal overwrites it; other outputs get a new line each time.
const (
	progressOnTerminal = 100 * time.Millisecond
	progressElsewhere  = 5 * time.Second
)

// progress prints the progress of a search.
type progress struct {
	out        io.Writer
	terminal   bool
	states     bool
	quiet      bool
	start      time.Time
	lastReport time.Time
	width      int // length of the line on the terminal
}

func newProgress(out io.Writer, states, quiet bool) *progress {
	now := time.Now()
	_, terminal := cli.Width(out)
	return &progress{out: out, terminal: terminal, states: states, quiet: quiet, start: now, lastReport: now}
}

// report is called after each schedule.
func (p *progress) report(r explore.Report) {
	pause := progressElsewhere
	if p.terminal {
		pause = progressOnTerminal
	}
	if now := time.Now(); !p.quiet && now.Sub(p.lastReport) >= pause {
		p.lastReport = now
		p.write(p.line(r))
	}
}

func (p *progress) line(r explore.Report) string {
	line := fmt.Sprintf("%d schedules, %.0f schedules/s", r.Schedules, float64(r.Schedules)/p.elapsed().Seconds())
	line += ", " + describeHistories(r.Histories, r.NewHistories, r.Schedules)
	if p.states {
		line += fmt.Sprintf(", %d states", r.States)
	}
	violations := 0
	for _, f := range r.Failures {
		violations += f.Times
	}
	return line + ", " + pluralize(violations, "violation")
}

func (p *progress) write(line string) {
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line)
	p.width = len(line)
}

// end erases the line on the terminal.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
	}
}

func (p *progress) elapsed() time.Duration { return time.Since(p.start) }
