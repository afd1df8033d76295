package scenario

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// isRead reports whether a request reads.
func isRead(r *trace.Record) bool {
	verb, _, _ := strings.Cut(r.Verb, "/")
	return slices.Contains([]string{"get", "list", "watch"}, verb)
}

// findReads returns the reads that explain the writes of the test's own components and scripts.
func findReads(s *Scenario, related *causality.RelatedObjects, all []trace.Record, r *Result, began int) *causality.Reads {
	return causality.FindReads(all, r.Trace.Reads(), began, s.isOwn,
		func(w *trace.Record) bool { return w.Step > r.SetupEnd && (related.Matches(w) || s.writesOwn(w)) })
}

// findReads finds the reads that the story tells.
func (t *storyWriter) findReads(all []trace.Record, r *Result) {
	t.reads = findReads(t.scenario, t.related, all, r, t.began)
	for process := range t.reads.Caches { // any order: they enter a set
		t.knowledge.CountOwn(process)
	}
}

// addReads adds the reads from caches that came after a record.
func (t *storyWriter) addReads(i int) {
	for _, read := range t.reads.Cached[t.began+i] {
		r := &t.records[i]
		process := trace.Process(r.Task)
		t.addLine(r, t.subject(r.Task)+" "+read.String())
		t.missed[process] = append(slices.Clip(t.missed[process]), read.Missed...)
	}
}

// addBase adds what the task knew of the object that it has written, if others have written to it.
func (t *storyWriter) addBase(i int) {
	base, has := t.reads.Bases[t.began+i]
	if !has {
		return
	}
	t.lines = append(t.lines, "      ("+base.Describe(&t.records[i])+")")
}
