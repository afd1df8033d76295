package picture

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// A scene is a run as the pictures see it: its events in order, and what each cache had seen.
type scene struct {
	options    Options
	related    *causality.RelatedObjects
	knowledge  *causality.CacheKnowledge
	reads      *causality.Reads // from caches that lagged, and of objects that changed meanwhile
	history    history
	missed     map[string][]*trace.Record // by process: the writes that it had not seen when it acted last
	crashed    map[string]bool            // processes
	acted      map[string]int             // by lane: its place in the order of the first actions
	earlier    map[string]int             // by lane that acted after the set-up, before what is drawn: its rank
	records    []trace.Record             // all
	began      int                        // index of the first record that is drawn
	events     []sceneEvent
	staleAtEnd []staleEntry // at the end of the run
}

// A sceneEvent is an event that the pictures show.
type sceneEvent struct {
	kind         eventKind
	record       *trace.Record // nil for a remark
	lane         string        // of the acting process or task
	callee       string        // of a call: the lane of the driver
	words        string
	version      int             // that a write created
	newlySeen    []*trace.Record // of a delivery: the writes that it shows
	seenLate     []*trace.Record // those of them that the process had not seen when it acted
	oldList      bool            // of a list: it does not show the latest state
	stale        []staleEntry    // stale cache entries when it acted
	unseen       []*trace.Record // the writes that it had not seen
	decidedAfter *trace.Record   // its action before the decision, if others have written to the object since; else nil
	since        []*trace.Record // those writes by others
	violation    bool            // a rule was violated here
	after        time.Duration   // time since the previous event
}

// eventKind is the kind of a sceneEvent.
type eventKind int

const (
	wrote     eventKind = iota // a write that the API server accepted
	refused                    // a request that it refused
	called                     // a driver call
	injected                   // an event of the simulation
	delivered                  // writes by others reach a cache
	restarted                  // the first action of a process after a crash
	remark                     // a note
	folded                     // counts repeated or omitted events
	looked                     // a read from a cache
)

// newScene returns the scene of a run.
func newScene(records []trace.Record, o Options) *scene {
	s := &scene{
		options: o, related: causality.NewRelatedObjects(records, nil),
		knowledge: causality.NewCacheKnowledge(), history: history{},
		missed: map[string][]*trace.Record{}, crashed: map[string]bool{}, acted: map[string]int{},
		earlier: map[string]int{}, records: slices.Clone(records),
	}
	for _, key := range o.Objects {
		s.related.Add(key)
	}
	s.began = slices.IndexFunc(s.records, func(r trace.Record) bool { return r.Step > o.After })
	if s.began < 0 {
		s.began = len(s.records)
	}
	setUp := s.began
	if o.Latest > 0 {
		s.began = max(s.began, len(s.records)-o.Latest)
	}
	trace.NumberHostSteps(s.records[s.began:])
	if slices.ContainsFunc(s.records, func(r trace.Record) bool { return r.HostStep > 0 }) {
		for i := range s.records {
			s.records[i].HostStep = cmp.Or(s.records[i].HostStep, beforeSteps)
		}
	}
	s.reads = causality.FindReads(s.records, o.Reads, s.began, s.readers(),
		func(w *trace.Record) bool { return w.Step > o.After && s.related.Matches(w) })
	for process := range s.reads.Caches { // any order: they enter a set
		s.knowledge.CountOwn(process)
	}
	remarks := o.Remarks
	for i := range s.records {
		r := &s.records[i]
		if i >= s.began {
			for len(remarks) > 0 && remarks[0].HostStep <= number(r) {
				s.events = append(s.events, sceneEvent{kind: remark, words: trace.Abbreviate(remarks[0].Words)})
				remarks = remarks[1:]
			}
			s.addRecord(i)
			s.addReads(i)
		}
		s.noteLanes(r, i >= setUp && i < s.began && !o.TaskLanes)
		s.history.add(r)
		s.knowledge.Observe(r, s.related.Matches(r))
	}
	for _, r := range remarks {
		s.events = append(s.events, sceneEvent{kind: remark, words: trace.Abbreviate(r.Words)})
	}
	s.addStaleAtEnd()
	return s
}

// readers returns whether a process is a user, or has read from a cache.
func (s *scene) readers() func(process string) bool {
	is := map[string]bool{}
	for _, r := range s.options.Reads {
		is[trace.Process(r.Task)] = true
	}
	for i := range s.records {
		if task := s.records[i].Task; !strings.Contains(task, "/") {
			is[task] = true
		}
	}
	return func(process string) bool { return is[process] }
}

// beforeSteps is the host step of records of a stepped world before its first step.
const beforeSteps = -1

// number returns the number by which readers know a record: its step in a stepped world, else its
// place in the log. 0 means none.
func number(r *trace.Record) int {
	switch r.HostStep {
	case beforeSteps:
		return 0
	case 0:
		return r.Step
	default:
		return r.HostStep
	}
}

// lane returns the lane of a task.
func (s *scene) lane(task string) string {
	process := trace.Process(task)
	if !s.options.TaskLanes {
		return process
	}
	if _, name, _ := strings.Cut(task, "/"); strings.HasPrefix(name, "cache ") {
		return process
	}
	return trace.DescribeTask(task)
}

// addRecord adds the event of a record if the pictures show it.
func (s *scene) addRecord(i int) {
	r := &s.records[i]
	h := sceneEvent{
		record: r, lane: s.lane(r.Task),
		violation: s.options.ViolationStep > 0 && r.Step == s.options.ViolationStep,
	}
	if process := trace.Process(r.Task); s.crashed[process] {
		delete(s.crashed, process)
		s.events = append(s.events, sceneEvent{kind: restarted, record: r, lane: h.lane})
	}
	concerns := s.related.Matches(r)
	told, tells := s.describe(r)
	switch {
	case r.Kind == trace.KindEvent && r.Verb == "tick": // pauses are shown anyway
		return
	case r.Kind == trace.KindEvent:
		h.kind, h.words = injected, trace.DescribeEvent(r.Verb, r.Object)
		h.lane, _, _ = strings.Cut(r.Object, " ")
		if crashed := causality.CrashedComponent(r); crashed != "" {
			h.lane = crashed
			delete(s.missed, crashed)
			s.crashed[crashed] = true
		}
	case r.Kind == trace.KindDeliver:
		s.addDelivery(r, &h)
		if len(h.newlySeen) == 0 && !h.oldList {
			return
		}
	case r.Kind == trace.KindDriver && (concerns && tells || h.violation):
		h.kind = called
	case r.Kind != trace.KindAPI:
		return
	case r.Err != nil && !r.Lost:
		if !concerns || !tells {
			return
		}
		h.kind = refused
	case h.violation, r.After != nil && concerns && tells:
		h.kind, h.version = wrote, r.Version()
	default:
		return
	}
	if h.words == "" && h.kind != delivered {
		if h.words = told; !tells {
			h.words = trace.DescribeAny(*r)
		}
		s.addStaleness(i, &h)
	}
	if h.kind <= called {
		h.words = h.lane + " " + h.words
	}
	h.words = trace.Abbreviate(h.words)
	if i > s.began {
		h.after = r.At - s.at()
	}
	s.events = append(s.events, h)
}

// describe returns what a record means, without paths and other details of driver calls.
func describe(r trace.Record) (words string, tells bool) {
	if r.Kind == trace.KindDriver {
		_, r.Detail, _ = strings.Cut(r.Object, "/")
	}
	return trace.Describe(r)
}

// describe is describe for a record of the scene: it also describes requests that write objects of
// other resources than those of the control plane.
func (s *scene) describe(r *trace.Record) (words string, tells bool) {
	words, tells = describe(*r)
	if tells || r.Kind != trace.KindAPI || r.After == nil && r.Err == nil || !s.related.IsOther(causality.WrittenObject(r)) {
		return words, tells
	}
	return trace.DescribeAny(*r), true
}

// addReads adds the reads from caches that came after a record.
func (s *scene) addReads(i int) {
	r := &s.records[i]
	for _, read := range s.reads.Cached[i] {
		lane := s.lane(r.Task)
		s.events = append(s.events, sceneEvent{kind: looked, record: r, lane: lane, words: trace.Abbreviate(lane + " " + read.String())})
	}
}

// at returns the time of the last event.
func (s *scene) at() time.Duration {
	for _, h := range slices.Backward(s.events) {
		if h.record != nil {
			return h.record.At
		}
	}
	return s.records[s.began].At
}

// addStaleness adds what the acting process had not seen.
func (s *scene) addStaleness(i int, h *sceneEvent) {
	process := trace.Process(h.record.Task)
	base, hasBase := s.reads.Bases[i]
	if hasBase && len(base.Since) > 0 {
		h.decidedAfter, h.since = base.Record, base.Since
	}
	decided, has := s.knowledge.DecisionContext(h.record.Task)
	if !has {
		return
	}
	if s.reads.Caches[process] {
		hasBase = true // addReads tells what it had read
	}
	if since := s.knowledge.WritesSince(h.record, decided); len(since) > 0 && !hasBase {
		h.decidedAfter, h.since = decided.Previous, since
	}
	if !slices.Equal(decided.Unseen, s.missed[process]) {
		h.stale, h.unseen = s.staleEntries(process, decided.Unseen), decided.Unseen
	}
	s.missed[process] = decided.Unseen
}

// addDelivery adds what a delivery shows.
func (s *scene) addDelivery(r *trace.Record, h *sceneEvent) {
	h.kind = delivered
	h.newlySeen = s.knowledge.NewlySeen(r)
	for _, w := range h.newlySeen {
		if slices.Contains(s.missed[trace.Process(r.Task)], w) {
			h.seenLate = append(h.seenLate, w)
		}
	}
	if r.Verb == "LIST" {
		h.oldList = s.history.hasNewer(r.Resource(), r.Version(), s.related)
	}
}

// addStaleAtEnd adds the stale cache entries at the end, of processes that acted without having
// seen the writes.
func (s *scene) addStaleAtEnd() {
	seen := map[string]bool{}
	for _, h := range s.events {
		if h.record == nil || h.kind > called || seen[trace.Process(h.record.Task)] {
			continue
		}
		process := trace.Process(h.record.Task)
		seen[process] = true
		missed := slices.DeleteFunc(s.knowledge.Unseen(process),
			func(w *trace.Record) bool { return !slices.Contains(s.missed[process], w) })
		s.staleAtEnd = append(s.staleAtEnd, s.staleEntries(process, missed)...)
	}
}
