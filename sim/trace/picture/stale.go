package picture

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// history keeps what objects were like, by their names, one version after the other.
type history map[string][]*trace.Record

func (h history) add(r *trace.Record) {
	if r.After != nil && r.Kind == trace.KindAPI {
		h[r.Object] = append(h[r.Object], r)
	}
}

// before is the last write to an object before one; nil if there is none.
func (h history) before(w *trace.Record) *trace.Record {
	var last *trace.Record
	for _, r := range h[w.Object] {
		if r.Step >= w.Step {
			break
		}
		last = r
	}
	return last
}

// stateBefore is what an object was like before a write, in words.
func (h history) stateBefore(w *trace.Record) string {
	if w.Before != nil {
		return trace.Abbreviate(trace.State(w.Before))
	}
	return state(h.before(w))
}

// hasNewer tells whether there is a write to objects of a resource after a version.
func (h history) hasNewer(resource string, version int, cast *trace.RelatedObjects) bool {
	for object, writes := range h { // in any order: it is only asked whether
		if !strings.HasPrefix(object, resource+"/") {
			continue
		}
		for _, w := range writes {
			if w.Version() > version && cast.Matches(w) {
				return true
			}
		}
	}
	return false
}

// staleEntry is what a cache holds, and what is so.
type staleEntry struct {
	process        string // whose cache it is
	object         string // in words
	cached, actual string
}

// String tells it in a sentence.
func (b staleEntry) String() string {
	return fmt.Sprintf("%s believes of %s: %s; it is: %s", b.process, b.object, b.cached, b.actual)
}

// staleEntries are what a component believes of the objects of writes that it has not heard of.
func (s *scene) staleEntries(part string, unheard []*trace.Record) []staleEntry {
	var beliefs []staleEntry
	seen := map[string]bool{}
	for _, w := range unheard {
		if seen[w.Object] {
			continue
		}
		seen[w.Object] = true
		last := w
		for _, later := range unheard {
			if later.Object == w.Object {
				last = later
			}
		}
		b := staleEntry{process: part, object: trace.Abbreviate(trace.ObjectName(w.Object)), cached: s.history.stateBefore(w), actual: state(last)}
		if b.cached != b.actual {
			beliefs = append(beliefs, b)
		}
	}
	return beliefs
}

// state says in a few words what an object is like after a write; nil is one that was never written.
func state(r *trace.Record) string {
	switch {
	case r == nil:
		return "not there"
	case r.Gone:
		return "gone"
	}
	return trace.Abbreviate(trace.State(r.After))
}
