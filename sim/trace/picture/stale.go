package picture

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// history holds the writes of each object by its name, in order.
type history map[string][]*trace.Record

func (h history) add(r *trace.Record) {
	if r.After != nil && r.Kind == trace.KindAPI {
		key := causality.WrittenObject(r)
		h[key] = append(h[key], r)
	}
}

// before returns the last write to an object before w, nil if there is none.
func (h history) before(w *trace.Record) *trace.Record {
	var last *trace.Record
	for _, r := range h[causality.WrittenObject(w)] {
		if r.Step >= w.Step {
			break
		}
		last = r
	}
	return last
}

// stateBefore returns the state of an object before a write, in words.
func (h history) stateBefore(w *trace.Record) string {
	if w.Before != nil {
		return trace.Abbreviate(trace.State(w.Before))
	}
	return state(h.before(w))
}

// hasNewer reports whether there is a write to an object of a resource after a version.
func (h history) hasNewer(resource string, version int, cast *causality.RelatedObjects) bool {
	for object, writes := range h { // any order: only existence matters
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

// A staleEntry is an object whose state in a cache differs from its actual state.
type staleEntry struct {
	process        string // whose cache it is
	object         string // in words
	cached, actual string
}

// String returns the entry as a sentence.
func (b staleEntry) String() string {
	return fmt.Sprintf("cache of %s: %s is %s; actual state: %s", b.process, b.object, b.cached, b.actual)
}

// staleEntries returns what a process has cached for the objects of writes that it has not seen.
func (s *scene) staleEntries(process string, unseen []*trace.Record) []staleEntry {
	var beliefs []staleEntry
	seen := map[string]bool{}
	for _, w := range unseen {
		object := causality.WrittenObject(w)
		if seen[object] {
			continue
		}
		seen[object] = true
		last := w
		for _, later := range unseen {
			if causality.WrittenObject(later) == object {
				last = later
			}
		}
		b := staleEntry{
			process: process, object: trace.Abbreviate(trace.ObjectName(object)),
			cached: s.history.stateBefore(w), actual: state(last),
		}
		if b.cached != b.actual {
			beliefs = append(beliefs, b)
		}
	}
	return beliefs
}

// state returns the state of an object after a write, in a few words. nil is an object that was
// never written.
func state(r *trace.Record) string {
	switch {
	case r == nil:
		return absent
	case r.Gone:
		return gone
	}
	return trace.Abbreviate(trace.State(r.After))
}
