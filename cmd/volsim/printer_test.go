package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/sim/trace"
)

func recordOf(step int) trace.Record {
	return trace.Record{Step: step, Task: "a", Action: trace.Action{Kind: trace.KindWork, Verb: "sync"}}
}

// The log tells of actions that took effect at the same time in whatever order.
func TestTellerKeepsTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	told := newPrinter(&out, &errs, true)
	for _, step := range []int{2, 1, 4, 5, 3} {
		told.record(recordOf(step))
	}
	told.close()
	var steps []string
	for line := range strings.Lines(out.String()) {
		step, _, _ := strings.Cut(line, "\t")
		steps = append(steps, step)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, steps); diff != "" || errs.Len() > 0 {
		t.Errorf("(-want +got)\n%s%s", diff, errs.String())
	}
}

// A terminal that takes nothing keeps nobody waiting; what it missed is counted.
func TestTellerWaitsForNoTerminal(t *testing.T) {
	t.Parallel()
	out, in := io.Pipe()
	told := newPrinter(in, io.Discard, true)
	for step := range queuedLinesMax + 100 {
		told.record(recordOf(step + 1))
	}
	lines := linesOf(out)
	<-lines
	for range queuedLinesMax / 2 {
		<-lines
	}
	told.info("last")
	go func() {
		told.close()
		in.Close()
	}()
	rest := all(lines)
	if !strings.HasSuffix(rest, " lines were left out\nlast\n") {
		t.Errorf("the end is %q", rest[max(0, len(rest)-80):])
	}
}
