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

// TestPrinterKeepsTheOrderOfTheLog delivers concurrent records in another order.
func TestPrinterKeepsTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	p := newPrinter(&out, &errs, true)
	for _, step := range []int{2, 1, 4, 5, 3} {
		p.record(recordOf(step))
	}
	p.close()
	var steps []string
	for line := range strings.Lines(out.String()) {
		step, _, _ := strings.Cut(line, "\t")
		steps = append(steps, step)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, steps); diff != "" || errs.Len() > 0 {
		t.Errorf("(-want +got)\n%s%s", diff, errs.String())
	}
}

// TestPrinterDropsLinesOfABlockedTerminal checks that a blocked terminal does not block callers, and that dropped lines are
// counted.
func TestPrinterDropsLinesOfABlockedTerminal(t *testing.T) {
	t.Parallel()
	out, in := io.Pipe()
	p := newPrinter(in, io.Discard, true)
	for step := range queuedLinesMax + 100 {
		p.record(recordOf(step + 1))
	}
	lines := linesOf(out)
	<-lines
	for range queuedLinesMax / 2 {
		<-lines
	}
	p.info("last")
	go func() {
		p.close()
		in.Close()
	}()
	rest := all(lines)
	if !strings.HasSuffix(rest, " lines dropped\nlast\n") {
		t.Errorf("output ends in %q", rest[max(0, len(rest)-80):])
	}
}
