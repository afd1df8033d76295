package picture

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// spaceTime is the space-time diagram. Its vertical axis are rows and arrivals, in order.
type spaceTime struct {
	title      string
	width      int // of the SVG; 0: the default
	lanes      []string
	moments    []moment
	strokes    []stroke
	downSpans  []span       // a process is down
	staleSpans []span       // a process has not seen a write
	staleAtEnd []staleEntry // at the end of the run
	verdict    []string
}

// A moment is a row with text, or, without number and text, the arrival of a delivery.
type moment struct {
	lane      int // of the acting process; -1: none
	number    int // 0: none
	words     string
	version   int      // 0: none
	notes     []string // what the acting process had not seen
	kind      eventKind
	violation bool
	row       bool
}

// A stroke is a line from a lane at one moment to another lane at another moment.
type stroke struct {
	what             ink
	from, fromMoment int
	to, toMoment     int
}

// A span is a part of a lane, from one moment to another.
type span struct{ lane, from, to int }

// repeated describes rows that were folded.
func repeated(period, times int) string {
	if period == 1 {
		return fmt.Sprintf("… %d more times", times)
	}
	return fmt.Sprintf("… these %d steps %d more times", period, times)
}

// pauseMin is the shortest pause that is shown for a live world. Under the stepped host every pause
// is shown.
const pauseMin = time.Second

// newSpaceTime lays out the diagram.
func newSpaceTime(s *scene) *spaceTime {
	happened := elideMiddle(fold(s.events))
	b := &spaceTimeBuilder{picture: &spaceTime{
		title: s.options.Title, width: s.options.Width, lanes: s.lanesOf(happened),
	}, at: map[*trace.Record]int{}, crashed: map[int]int{}, restartedAt: map[int]int{}, staleSince: map[unseenWrite]int{}, seenAt: map[unseenWrite]int{}}
	if b.picture.title == "" {
		b.picture.title = "Writes, and when caches saw them"
	}
	for _, v := range s.options.Verdict {
		b.picture.verdict = append(b.picture.verdict, trace.Abbreviate(v))
	}
	b.picture.staleAtEnd = s.staleAtEnd
	b.server = slices.Index(b.picture.lanes, server)
	for i := range happened {
		b.add(&happened[i])
	}
	b.end()
	return b.picture
}

// A spaceTimeBuilder lays out a space-time diagram.
type spaceTimeBuilder struct {
	picture     *spaceTime
	server      int                   // its lane
	at          map[*trace.Record]int // the moments of writes
	crashed     map[int]int           // lane: moment of the crash
	staleSince  map[unseenWrite]int   // first moment
	unseen      []unseenWrite         // those that are still unseen, in order
	seenAt      map[unseenWrite]int   // moment of the delivery
	restartedAt map[int]int           // lane: moment of the last restart
}

// An unseenWrite is a write that the process of a lane has not seen.
type unseenWrite struct {
	lane  int
	write *trace.Record
}

func (b *spaceTimeBuilder) lane(name string) int { return slices.Index(b.picture.lanes, name) }

// moment adds a moment and returns its index.
func (b *spaceTimeBuilder) moment(m moment) int {
	b.picture.moments = append(b.picture.moments, m)
	return len(b.picture.moments) - 1
}

func (b *spaceTimeBuilder) stroke(what ink, from, fromMoment, to, toMoment int) {
	b.picture.strokes = append(b.picture.strokes, stroke{what, from, fromMoment, to, toMoment})
}

func (b *spaceTimeBuilder) add(h *sceneEvent) {
	lane := b.lane(h.lane)
	if h.record != nil && h.pause() && h.kind != delivered {
		b.moment(moment{lane: -1, words: fmt.Sprintf("… %s later", h.after), row: true, kind: folded})
	}
	switch h.kind {
	case delivered:
		b.addDelivery(h, lane)
		return
	case restarted:
		if from, crashed := b.crashed[lane]; crashed && lane >= 0 {
			b.restartedAt[lane] = b.moment(moment{lane: lane, kind: restarted})
			b.picture.downSpans = append(b.picture.downSpans, span{lane, from, b.restartedAt[lane]})
			delete(b.crashed, lane)
		}
		return
	case remark, folded:
		b.moment(moment{lane: -1, words: h.words, row: true, kind: h.kind})
		return
	}
	now := b.moment(moment{
		lane: lane, number: number(h.record), words: h.words, version: h.version, notes: staleNotes(h),
		kind: h.kind, violation: h.violation, row: true,
	})
	switch h.kind {
	case wrote:
		b.at[h.record] = now
		b.stroke(strokeOf(h), lane, now, b.server, now)
	case refused:
		b.stroke("refused", lane, now, b.server, now)
	case called:
		b.stroke(strokeOf(h), lane, now, b.lane(h.callee), now)
	case injected:
		if _, crashed := b.crashed[lane]; !crashed && lane >= 0 && causality.CrashedComponent(h.record) != "" {
			b.crashed[lane] = now
			b.endAllStale(lane, now)
		}
	}
	b.addStale(h, lane)
}

// strokeOf returns the ink of an action.
func strokeOf(h *sceneEvent) ink {
	switch {
	case h.record.Lost:
		return "lost"
	case h.record.Err != nil:
		return "refused"
	default:
		return "write"
	}
}

// staleNotes returns the notes about an action from stale state.
func staleNotes(h *sceneEvent) []string {
	var all []string
	if len(h.since) > 0 {
		decided := number(h.decidedAfter)
		all = append(all, fmt.Sprintf("%s decided in step %d, before %s", h.lane, decided, causality.StepsSince(decided, numbers(h.since))))
	}
	for _, b := range h.stale {
		all = append(all, b.String())
	}
	return all
}

// numbers returns the numbers of records.
func numbers(records []*trace.Record) []int {
	all := make([]int, len(records))
	for i, r := range records {
		all[i] = number(r)
	}
	return all
}

// addStale records which writes the acting process had not seen.
func (b *spaceTimeBuilder) addStale(h *sceneEvent, lane int) {
	if len(h.since) > 0 {
		if from, drawn := b.at[h.since[0]]; drawn {
			b.picture.staleSpans = append(b.picture.staleSpans, span{lane, from, len(b.picture.moments) - 1})
		}
	}
	for _, w := range h.unseen {
		which := unseenWrite{lane, w}
		since, drawn := b.at[w]
		if _, known := b.staleSince[which]; !drawn || known {
			continue
		}
		b.staleSince[which] = max(since, b.restartedAt[lane])
		b.unseen = append(b.unseen, which)
		if seen, has := b.seenAt[which]; has { // between the decision and the action
			b.endStale(lane, w, seen)
			b.markLate(which, seen)
		}
	}
}

// markLate makes the line of a delivery one that came after a decision.
func (b *spaceTimeBuilder) markLate(which unseenWrite, seen int) {
	line := stroke{"news", b.server, b.at[which.write], which.lane, seen}
	if i := slices.Index(b.picture.strokes, line); i >= 0 {
		b.picture.strokes[i].what = "late"
	}
}

// endAllStale ends the stale spans of a process that crashes.
func (b *spaceTimeBuilder) endAllStale(lane, now int) {
	for _, which := range slices.Clone(b.unseen) {
		if which.lane == lane {
			b.endStale(lane, which.write, now)
		}
	}
	maps.DeleteFunc(b.seenAt, func(which unseenWrite, _ int) bool { return which.lane == lane })
}

// addDelivery draws the lines of a delivery.
func (b *spaceTimeBuilder) addDelivery(h *sceneEvent, lane int) {
	if lane < 0 {
		return
	}
	now := -1
	draw := func(what ink, from int) {
		if now < 0 {
			now = b.moment(moment{lane: lane, kind: delivered})
		}
		b.stroke(what, b.server, from, lane, now)
	}
	for _, w := range h.newlySeen {
		from, drawn := b.at[w]
		switch {
		case !drawn:
		case slices.Contains(h.seenLate, w):
			draw("late", from)
			b.endStale(lane, w, now)
		default:
			draw("news", from)
		}
		if drawn {
			b.seenAt[unseenWrite{lane, w}] = now
		}
	}
	if h.oldList {
		if from, drawn := b.asOf(h.record); drawn {
			draw("old", from)
		}
	}
}

// endStale ends the stale span of a write that a process sees.
func (b *spaceTimeBuilder) endStale(lane int, w *trace.Record, now int) {
	which := unseenWrite{lane, w}
	if since, blind := b.staleSince[which]; blind {
		b.picture.staleSpans = append(b.picture.staleSpans, span{lane, since, now})
		delete(b.staleSince, which)
		b.unseen = slices.DeleteFunc(b.unseen, func(other unseenWrite) bool { return other == which })
	}
}

// asOf returns the moment of the last write that an old list shows.
func (b *spaceTimeBuilder) asOf(list *trace.Record) (at int, drawn bool) {
	version := 0
	for w, moment := range b.at { // any order: the newest wins
		if w.Resource() == list.Resource() && w.Version() <= list.Version() && w.Version() > version {
			at, version = moment, w.Version()
		}
	}
	return at, version > 0
}

// end ends what is still open.
func (b *spaceTimeBuilder) end() {
	last := b.moment(moment{lane: -1})
	for _, which := range b.unseen {
		b.picture.staleSpans = append(b.picture.staleSpans, span{which.lane, b.staleSince[which], last})
		b.stroke("never", b.server, b.at[which.write], which.lane, last)
	}
	for lane := range b.picture.lanes {
		if from, crashed := b.crashed[lane]; crashed {
			b.picture.downSpans = append(b.picture.downSpans, span{lane, from, last})
		}
	}
	slices.SortFunc(b.picture.staleSpans, func(x, y span) int { return x.from - y.from })
}
