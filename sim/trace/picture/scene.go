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
	options  Options
	cast     *trace.Cast
	hearsay  *trace.Hearsay
	history  history
	missed   map[string][]*trace.Record // by component: what it acted without knowing
	dead     map[string]bool            // components
	records  []trace.Record             // all
	began    int                        // how many of them were before
	happened []happening
	behind   []belief // at the end
}

// happening is one thing that happened and matters.
type happening struct {
	what    sort
	record  *trace.Record // nil for a remark
	who     string        // the lane of who did it
	callee  string        // of a call: the lane of the driver
	words   string
	version int             // that a write has made
	news    []*trace.Record // of a delivery: the writes that it brings
	late    []*trace.Record // those of them without which the one who hears has acted
	stale   bool            // of a list: what it brings is not the newest
	unaware []belief        // what who acts believed that was not so
	missed  []*trace.Record // the writes that it did not know of
	basis   *trace.Record   // after which it decided what to do, if others have written to the object since; nil: they have not
	since   []*trace.Record // what they wrote
	broken  bool            // here something was wrong
	after   time.Duration   // how long nothing happened before
}

// sort says what sort of thing happened.
type sort int

const (
	wrote   sort = iota // the API server took it
	refused             // the API server did not
	called              // a driver
	befell              // the world
	heard               // of what others wrote
	rose                // somebody who was dead acts again
	remark              // is only said
	folded              // what came before came again
)

// newScene looks at a run.
func newScene(records []trace.Record, o Options) *scene {
	s := &scene{
		options: o, cast: trace.NewCast(records), hearsay: trace.NewHearsay(), history: history{},
		missed: map[string][]*trace.Record{}, dead: map[string]bool{}, records: slices.Clone(records),
	}
	for _, key := range o.Objects {
		s.cast.Enter(key)
	}
	s.began = slices.IndexFunc(s.records, func(r trace.Record) bool { return r.Step > o.After })
	if s.began < 0 {
		s.began = len(s.records)
	}
	trace.Number(s.records[s.began:])
	if slices.ContainsFunc(s.records, func(r trace.Record) bool { return r.Turn > 0 }) {
		for i := range s.records {
			s.records[i].Turn = cmp.Or(s.records[i].Turn, beforeSteps)
		}
	}
	remarks := o.Remarks
	for i := range s.records {
		r := &s.records[i]
		if i >= s.began {
			for len(remarks) > 0 && remarks[0].Turn <= number(r) {
				s.happened = append(s.happened, happening{what: remark, words: trace.Short(remarks[0].Words)})
				remarks = remarks[1:]
			}
			s.look(i)
		}
		s.history.note(r)
		s.hearsay.Note(r, s.cast.Concerns(r))
	}
	for _, r := range remarks {
		s.happened = append(s.happened, happening{what: remark, words: trace.Short(r.Words)})
	}
	s.end()
	return s
}

// beforeSteps stands for the turn of what was done in a stepped world before its first step.
const beforeSteps = -1

// number is what people call a record by: its step in a stepped world, or else its place in the record. 0 is nothing.
func number(r *trace.Record) int {
	switch r.Turn {
	case beforeSteps:
		return 0
	case 0:
		return r.Step
	default:
		return r.Turn
	}
}

// lane is that of an actor.
func (s *scene) lane(actor string) string {
	part := trace.Component(actor)
	if !s.options.Strands {
		return part
	}
	if _, strand, _ := strings.Cut(actor, "/"); strings.HasPrefix(strand, "cache ") {
		return part
	}
	return trace.Strand(actor)
}

// look decides whether a record matters, and takes it in.
func (s *scene) look(i int) {
	r := &s.records[i]
	h := happening{record: r, who: s.lane(r.Actor), broken: s.options.Broken > 0 && r.Step == s.options.Broken}
	if part := trace.Component(r.Actor); s.dead[part] {
		delete(s.dead, part)
		s.happened = append(s.happened, happening{what: rose, record: r, who: h.who})
	}
	concerns := s.cast.Concerns(r)
	told, tells := tell(*r)
	switch {
	case r.Kind == trace.KindEvent && r.Verb == "tick": // that time passes is said anyhow
		return
	case r.Kind == trace.KindEvent:
		h.what, h.words = befell, trace.TellEvent(r.Verb, r.Object)
		h.who, _, _ = strings.Cut(r.Object, " ")
		if dead := trace.Dies(r); dead != "" {
			h.who = dead
			delete(s.missed, dead)
			s.dead[dead] = true
		}
	case r.Kind == trace.KindDeliver:
		s.deliver(r, &h)
		if len(h.news) == 0 && !h.stale {
			return
		}
	case r.Kind == trace.KindDriver && (concerns && tells || h.broken):
		h.what = called
	case r.Kind != trace.KindAPI:
		return
	case r.Err != nil && !r.Lost:
		if !concerns || !tells {
			return
		}
		h.what = refused
	case h.broken, r.After != nil && concerns && tells:
		h.what, h.version = wrote, r.Version()
	default:
		return
	}
	if h.words == "" && h.what != heard {
		if h.words = told; !tells {
			h.words = trace.TellAll(*r)
		}
		s.ignorance(&h)
	}
	if h.what <= called {
		h.words = h.who + " " + h.words
	}
	h.words = trace.Short(h.words)
	if i > s.began {
		h.after = r.At - s.at()
	}
	s.happened = append(s.happened, h)
}

// tell says what a record means. Where exactly a driver has done something is of no interest in a picture.
func tell(r trace.Record) (words string, tells bool) {
	if r.Kind == trace.KindDriver {
		_, r.Detail, _ = strings.Cut(r.Object, "/")
	}
	return trace.Tell(r)
}

// at is when the last thing happened.
func (s *scene) at() time.Duration {
	for _, h := range slices.Backward(s.happened) {
		if h.record != nil {
			return h.record.At
		}
	}
	return s.records[s.began].At
}

// ignorance is what who acts did not know.
func (s *scene) ignorance(h *happening) {
	part := trace.Component(h.record.Actor)
	basis, has := s.hearsay.Basis(h.record.Actor)
	if !has {
		return
	}
	if since := s.hearsay.Since(h.record, basis); len(since) > 0 {
		h.basis, h.since = basis.Record, since
	}
	if !slices.Equal(basis.Unheard, s.missed[part]) {
		h.unaware, h.missed = s.beliefs(part, basis.Unheard), basis.Unheard
	}
	s.missed[part] = basis.Unheard
}

// deliver finds what a delivery brings.
func (s *scene) deliver(r *trace.Record, h *happening) {
	h.what = heard
	h.news = s.hearsay.News(r)
	for _, w := range h.news {
		if slices.Contains(s.missed[trace.Component(r.Actor)], w) {
			h.late = append(h.late, w)
		}
	}
	if r.Verb == "LIST" {
		h.stale = s.history.newer(r.Resource(), r.Version(), s.cast)
	}
}

// end is what caches believe at the end that is not so, of those who acted without knowing it.
func (s *scene) end() {
	seen := map[string]bool{}
	for _, h := range s.happened {
		if h.record == nil || h.what > called || seen[trace.Component(h.record.Actor)] {
			continue
		}
		part := trace.Component(h.record.Actor)
		seen[part] = true
		missed := slices.DeleteFunc(s.hearsay.Unheard(part), func(w *trace.Record) bool { return !slices.Contains(s.missed[part], w) })
		s.behind = append(s.behind, s.beliefs(part, missed)...)
	}
}
