package picture

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// scene is a run as pictures look at it: what happened, one after the other, and who heard of it when.
type scene struct {
	options    Options
	related    *trace.RelatedObjects
	knowledge  *trace.CacheKnowledge
	history    history
	missed     map[string][]*trace.Record // by component: what it acted without knowing
	crashed    map[string]bool            // components
	records    []trace.Record             // all
	began      int                        // how many of them were before
	events     []sceneEvent
	staleAtEnd []staleEntry // at the end
}

// sceneEvent is one thing that happened and matters.
type sceneEvent struct {
	kind         eventKind
	record       *trace.Record // nil for a remark
	lane         string        // the lane of who did it
	callee       string        // of a call: the lane of the driver
	words        string
	version      int             // that a write has made
	newlySeen    []*trace.Record // of a delivery: the writes that it brings
	seenLate     []*trace.Record // those of them without which the one who hears has acted
	oldList      bool            // of a list: what it brings is not the newest
	stale        []staleEntry    // what who acts believed that was not so
	unseen       []*trace.Record // the writes that it did not know of
	decidedAfter *trace.Record   // after which it decided what to do, if others have written to the object since; nil: they have not
	since        []*trace.Record // what they wrote
	violation    bool            // here something was wrong
	after        time.Duration   // how long nothing happened before
}

// eventKind says what sort of thing happened.
type eventKind int

const (
	wrote     eventKind = iota // the API server took it
	refused                    // the API server did not
	called                     // a driver
	injected                   // the world
	delivered                  // of what others wrote
	restarted                  // somebody who was dead acts again
	remark                     // is only said
	folded                     // what came before came again
)

// newScene looks at a run.
func newScene(records []trace.Record, o Options) *scene {
	s := &scene{
		options: o, related: trace.NewRelatedObjects(records), knowledge: trace.NewCacheKnowledge(), history: history{},
		missed: map[string][]*trace.Record{}, crashed: map[string]bool{}, records: slices.Clone(records),
	}
	for _, key := range o.Objects {
		s.related.Add(key)
	}
	s.began = slices.IndexFunc(s.records, func(r trace.Record) bool { return r.Step > o.After })
	if s.began < 0 {
		s.began = len(s.records)
	}
	trace.NumberHostSteps(s.records[s.began:])
	if slices.ContainsFunc(s.records, func(r trace.Record) bool { return r.HostStep > 0 }) {
		for i := range s.records {
			s.records[i].HostStep = cmp.Or(s.records[i].HostStep, beforeSteps)
		}
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
		}
		s.history.add(r)
		s.knowledge.Observe(r, s.related.Matches(r))
	}
	for _, r := range remarks {
		s.events = append(s.events, sceneEvent{kind: remark, words: trace.Abbreviate(r.Words)})
	}
	s.addStaleAtEnd()
	return s
}

// beforeSteps stands for the turn of what was done in a stepped world before its first step.
const beforeSteps = -1

// number is what people call a record by: its step in a stepped world, or else its place in the record. 0 is nothing.
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

// lane is that of an actor.
func (s *scene) lane(actor string) string {
	part := trace.Process(actor)
	if !s.options.TaskLanes {
		return part
	}
	if _, strand, _ := strings.Cut(actor, "/"); strings.HasPrefix(strand, "cache ") {
		return part
	}
	return trace.DescribeTask(actor)
}

// addRecord decides whether a record matters, and takes it in.
func (s *scene) addRecord(i int) {
	r := &s.records[i]
	h := sceneEvent{record: r, lane: s.lane(r.Task), violation: s.options.ViolationStep > 0 && r.Step == s.options.ViolationStep}
	if part := trace.Process(r.Task); s.crashed[part] {
		delete(s.crashed, part)
		s.events = append(s.events, sceneEvent{kind: restarted, record: r, lane: h.lane})
	}
	concerns := s.related.Matches(r)
	told, tells := describe(*r)
	switch {
	case r.Kind == trace.KindEvent && r.Verb == "tick": // that time passes is said anyhow
		return
	case r.Kind == trace.KindEvent:
		h.kind, h.words = injected, trace.DescribeEvent(r.Verb, r.Object)
		h.lane, _, _ = strings.Cut(r.Object, " ")
		if dead := trace.CrashedComponent(r); dead != "" {
			h.lane = dead
			delete(s.missed, dead)
			s.crashed[dead] = true
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
		s.addStaleness(&h)
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

// describe says what a record means. Where exactly a driver has done something is of no interest in a picture.
func describe(r trace.Record) (words string, tells bool) {
	if r.Kind == trace.KindDriver {
		_, r.Detail, _ = strings.Cut(r.Object, "/")
	}
	return trace.Describe(r)
}

// at is when the last thing happened.
func (s *scene) at() time.Duration {
	for _, h := range slices.Backward(s.events) {
		if h.record != nil {
			return h.record.At
		}
	}
	return s.records[s.began].At
}

// addStaleness is what who acts did not know.
func (s *scene) addStaleness(h *sceneEvent) {
	part := trace.Process(h.record.Task)
	basis, has := s.knowledge.DecisionContext(h.record.Task)
	if !has {
		return
	}
	if since := s.knowledge.WritesSince(h.record, basis); len(since) > 0 {
		h.decidedAfter, h.since = basis.Previous, since
	}
	if !slices.Equal(basis.Unseen, s.missed[part]) {
		h.stale, h.unseen = s.staleEntries(part, basis.Unseen), basis.Unseen
	}
	s.missed[part] = basis.Unseen
}

// addDelivery finds what a delivery brings.
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

// addStaleAtEnd is what caches believe at the end that is not so, of those who acted without knowing it.
func (s *scene) addStaleAtEnd() {
	seen := map[string]bool{}
	for _, h := range s.events {
		if h.record == nil || h.kind > called || seen[trace.Process(h.record.Task)] {
			continue
		}
		part := trace.Process(h.record.Task)
		seen[part] = true
		missed := slices.DeleteFunc(s.knowledge.Unseen(part), func(w *trace.Record) bool { return !slices.Contains(s.missed[part], w) })
		s.staleAtEnd = append(s.staleAtEnd, s.staleEntries(part, missed)...)
	}
}
