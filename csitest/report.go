package csitest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// report reports the findings as errors of the test, and logs how much was tried.
func (c *checker) report(t testing.TB) {
	t.Helper()
	if rpc := c.hang(); rpc != "" {
		t.Errorf("%s does not return, although its context ended %v after the call, and %v ago: nothing else was tried", rpc, c.timeout, grace)
		return
	}
	for _, f := range c.sorted() {
		t.Errorf("%s%s", f.text, f.details(t))
	}
	if c.err != nil {
		t.Error(c.err)
	}
	t.Logf("%d trials passed", c.passed)
	if len(c.skipped) > 0 {
		t.Logf("not tried: %s", strings.Join(c.skipped, ", "))
	}
}

// sorted returns the findings in the order of the specification.
func (c *checker) sorted() []reported {
	position := func(rpc string) int {
		if i := slices.Index(rpcs, rpc); i >= 0 {
			return i
		}
		return len(rpcs)
	}
	all := slices.Clone(c.findings)
	slices.SortStableFunc(all, func(a, b reported) int { return cmp.Compare(position(a.rpc), position(b.rpc)) })
	return all
}

// linesMax bounds the story of a finding, and recordsMax its picture.
const (
	linesMax   = 40
	recordsMax = 500
)

// details returns how a finding was found: the trial, the schedule, the calls, and where the picture is.
func (f *reported) details(t testing.TB) string {
	r := &f.result
	var b strings.Builder
	fmt.Fprintf(&b, "\n  Target.Trial: %q runs this trial alone", r.trial.name())
	if len(r.schedule) > 0 {
		fmt.Fprintf(&b, "\n  schedule: %s", r.schedule)
	}
	lines := r.lines()
	if more := len(lines) - linesMax; more > 0 {
		lines = append(lines[:linesMax:linesMax], fmt.Sprintf("… %d lines omitted …", more))
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "\n    %s", line)
	}
	if file := r.picture(t); file != "" {
		fmt.Fprintf(&b, "\n  picture: %s", file)
	}
	return trace.Abbreviate(b.String())
}

// lines returns the calls of the driver after the set-up, the events, and what users did. What happens again and
// again is one line.
func (r *result) lines() []string {
	var lines []string
	last, again := "", 0
	for i := range r.records {
		record := &r.records[i]
		if record.Step <= r.setupEnd {
			continue
		}
		words := ""
		switch who := trace.Process(record.Task); {
		case record.Kind == trace.KindEvent:
			words = ">> " + trace.DescribeEvent(record.Verb, record.Object)
		case record.Kind == trace.KindDriver && slices.Contains(rpcs, record.Verb),
			record.Kind == trace.KindAPI && strings.HasPrefix(who, "user") && record.After != nil:
			words = who + " " + trace.DescribeAny(*record)
		default:
			continue
		}
		at := record.At.Round(time.Millisecond)
		if words == last {
			if again++; again > 1 {
				lines = lines[:len(lines)-1]
			}
			lines = append(lines, fmt.Sprintf("%9s  the same for the %s time", at, ordinal(again+1)))
			continue
		}
		last, again = words, 0
		lines = append(lines, fmt.Sprintf("%9s  %s", at, words))
	}
	return lines
}

// ordinal returns a number as in "the 2nd".
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// picture draws a trial into a file, if go test has the flag -artifacts, and returns the path.
func (r *result) picture(t testing.TB) string {
	artifacts := flag.Lookup("test.artifacts")
	if artifacts == nil || artifacts.Value.String() != "true" || os.Getenv("VOLSIM_KEEP") == "no" || len(r.records) == 0 {
		return ""
	}
	name := strings.NewReplacer("/", "-", " ", "-", "#", "-").Replace(r.trial.name()) + ".svg"
	file := filepath.Join(t.ArtifactDir(), name)
	drawing := picture.SpaceTime(r.records, picture.Options{Title: r.trial.name(), After: r.setupEnd, Latest: recordsMax})
	if err := os.WriteFile(file, drawing.SVG(), 0o644); err != nil {
		t.Logf("picture: %v", err)
		return ""
	}
	return file
}
