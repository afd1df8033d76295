package explore

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/explore/scenario"
)

// A blockOrder leaves out orders that differ only in when a process makes its local steps. A step is
// local if it uses nothing but what its process keeps in memory: a delivery to a cache, or the
// beginning of a worker's work up to its first request. Nothing outside the process depends on it, and
// it depends on nothing that happens outside, so it can be made later: directly before the next step
// of the process that is not local. Local steps therefore stay together with that step, as a block,
// and the states of the search are those between two blocks.
//
// The local steps that are followed by none of their process are trailing: they are made when all others
// have been made that can be made at that time, process by process.
//
// Nothing reads API events (see resourceEvents), so they are written at once.
//
// Upstream: none; R. Lipton, "Reduction: A Method of Proving Properties of Parallel Programs" (1975).
type blockOrder struct {
	process  string    // whose block has begun; "": the state is between two blocks
	trailing bool      // only local steps follow at this time
	now      time.Time // of the last step
	open     []step    // local steps of the block on which none of the later ones depends
}

func (b *blockOrder) clone() blockOrder {
	c := *b
	c.open = slices.Clone(b.open)
	return c
}

// add adds the last step. It returns false if the order need not be continued.
func (b *blockOrder) add(s step) bool {
	if writesEvents(s.id) {
		return true
	}
	allowed := b.allows(s)
	b.open = slices.DeleteFunc(b.open, s.needs)
	b.process = ""
	if s.isLocal() {
		b.process = s.id.process
		b.open = append(b.open, s)
	}
	return allowed
}

// allows reports whether a step may follow. One that is not local may not if there is an earlier step in the
// block on which it does not depend, since that is then made later.
func (b *blockOrder) allows(s step) bool {
	if writesEvents(s.id) || s.isLocal() {
		return true
	}
	return !b.trailing && !slices.ContainsFunc(b.open, func(earlier step) bool { return !s.needs(earlier) })
}

// needs reports whether a step depends on an earlier one.
func (s step) needs(earlier step) bool {
	return earlier.id.task == s.id.task || earlier.uses.dependent(s.uses)
}

// isLocal reports whether the step is local, and nothing goes wrong in it.
func (s step) isLocal() bool { return s.local && !s.id.isMishap() }

// restrict returns those steps that are part of the order. none: it need not be continued.
func (b *blockOrder) restrict(all []stepID, now time.Time) []stepID {
	if !now.Equal(b.now) {
		b.now, b.process, b.trailing, b.open = now, "", false, nil
	}
	if i := slices.IndexFunc(all, writesEvents); i >= 0 {
		first := all[i]
		return keep(all, func(id stepID) bool { return id.task == first.task && id.which == first.which })
	}
	if b.process != "" {
		if own := stepsOf(all, b.process); len(own) > 0 {
			slices.SortStableFunc(own, compareUse)
			return own
		}
		if !mayTrail(all, b.process) {
			b.trailing = true
			return nil // a step that is not local follows, or other steps are made first
		}
		b.process, b.open, b.trailing = "", nil, true
	}
	if !b.trailing {
		slices.SortStableFunc(all, compareUse)
		return all
	}
	all = keep(all, func(id stepID) bool { return !id.isMishap() })
	if slices.ContainsFunc(all, func(id stepID) bool { return id.calls }) {
		return nil // a step that is not local follows
	}
	first := ""
	for _, id := range all {
		if first == "" || id.process < first {
			first = id.process
		}
	}
	return keep(all, func(id stepID) bool { return id.process == first })
}

// isOpen reports whether the state is not one between two blocks.
func (b *blockOrder) isOpen() bool { return b.process != "" || b.trailing }

// number numbers a state of the order.
func (b *blockOrder) number(state uint64) uint64 {
	if b.process != "" {
		state = mix(state, "block "+b.process)
	}
	for _, s := range b.open {
		state += s.hash()
	}
	if b.trailing {
		state = mix(state, "trailing")
	}
	return state
}

// mayTrail reports whether the local steps of a process may be made as trailing ones: no step but local ones can
// be made of other processes, and none of those that come first.
func mayTrail(enabled []stepID, process string) bool {
	return !slices.ContainsFunc(enabled, func(id stepID) bool {
		return id.process != process && (id.calls || id.process < process) && id.event == ""
	})
}

// allowsBlocks reports whether no event of a scenario's users depends on what caches have taken in: local
// steps cannot be made after such an event.
func allowsBlocks(s *scenario.Scenario) bool {
	for _, u := range s.Users {
		if u.Script != nil {
			return false
		}
		for _, a := range u.Acts {
			words := strings.Fields(a.String())
			if words[0] == "let" && !slices.Contains([]string{crashEvent, "stop", "start", "replicate", "retire"}, words[1]) {
				return false
			}
		}
	}
	return true
}

// hash returns a number for what the step is, and what it uses.
func (s step) hash() uint64 {
	n := mix(0, s.id.task)
	for _, u := range s.uses {
		n = finish(n*31 + uint64(u.part)<<8 + uint64(u.kind))
	}
	return n
}

// compareUse orders steps such that what one uses is mostly known when it would follow a local step: those
// that are not local come first, deliveries last.
func compareUse(a, b stepID) int {
	return cmp.Compare(a.useOrder(), b.useOrder())
}

func (id stepID) useOrder() int {
	switch {
	case delivers(id):
		return 2
	case id.mayBeLocal():
		return 1
	}
	return 0
}

// delivers reports whether the step is a delivery to a cache.
func delivers(id stepID) bool { return strings.HasPrefix(id.task, id.process+"/cache ") }

// writesEvents reports whether the step is one of an event recorder.
func writesEvents(id stepID) bool { return strings.HasSuffix(id.task, "/"+resourceEvents) }

// keep returns the steps for which a condition holds.
func keep(all []stepID, holds func(stepID) bool) []stepID {
	var kept []stepID
	for _, id := range all {
		if holds(id) {
			kept = append(kept, id)
		}
	}
	return kept
}
