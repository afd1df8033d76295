package picture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// spaceTime is the space-time diagram. Its time is that of its rows and arrivals, one below the other.
type spaceTime struct {
	title   string
	lanes   []string
	moments []moment
	strokes []stroke
	gaps    []span   // somebody is dead
	blind   []span   // somebody does not know
	behind  []belief // at the end
	verdict []string
}

// moment is a row with words, or (without a number and words) that something arrives.
type moment struct {
	lane    int // of who acts; -1: nobody's
	number  int // 0: none
	words   string
	version int      // 0: none
	notes   []string // what who acts did not know
	what    sort
	broken  bool
	row     bool
}

// stroke is a line from one lane at one moment to another lane at another one.
type stroke struct {
	what             ink
	from, fromMoment int
	to, toMoment     int
}

// span is a part of a lane, from one moment to another.
type span struct{ lane, from, to int }

// again is said of what was folded.
func again(period, times int) string {
	if period == 1 {
		return fmt.Sprintf("… %d more times", times)
	}
	return fmt.Sprintf("… these %d steps %d more times", period, times)
}

// pauseMin is how long nothing must happen in a live world before that is told; under the stepped host any time is.
const pauseMin = time.Second

// newSpaceTime decides the diagram.
func newSpaceTime(s *scene) *spaceTime {
	happened := shorten(fold(s.happened))
	b := &weaver{picture: &spaceTime{
		title: s.options.Title, lanes: lanesOf(happened),
	}, at: map[*trace.Record]int{}, dead: map[int]int{}, born: map[int]int{}, blind: map[blindness]int{}}
	if b.picture.title == "" {
		b.picture.title = "Who did what, and who heard of it when"
	}
	for _, v := range s.options.Verdict {
		b.picture.verdict = append(b.picture.verdict, trace.Short(v))
	}
	b.picture.behind = s.behind
	b.server = slices.Index(b.picture.lanes, server)
	for i := range happened {
		b.add(&happened[i])
	}
	b.end()
	return b.picture
}

// weaver puts a space-time diagram together.
type weaver struct {
	picture *spaceTime
	server  int                   // its lane
	at      map[*trace.Record]int // the moments of writes
	dead    map[int]int           // lane: since which moment
	blind   map[blindness]int     // since which moment
	open    []blindness           // those that are not over, in their order
	born    map[int]int           // lane: the moment at which it rose last
}

// blindness is that the actor of a lane does not know of a write.
type blindness struct {
	lane  int
	write *trace.Record
}

func (b *weaver) lane(name string) int { return slices.Index(b.picture.lanes, name) }

// moment adds one, and returns its number.
func (b *weaver) moment(m moment) int {
	b.picture.moments = append(b.picture.moments, m)
	return len(b.picture.moments) - 1
}

func (b *weaver) stroke(what ink, from, fromMoment, to, toMoment int) {
	b.picture.strokes = append(b.picture.strokes, stroke{what, from, fromMoment, to, toMoment})
}

func (b *weaver) add(h *happening) {
	lane := b.lane(h.who)
	if h.record != nil && h.pause() && h.what != heard {
		b.moment(moment{lane: -1, words: fmt.Sprintf("… %s later", h.after), row: true, what: folded})
	}
	switch h.what {
	case heard:
		b.hear(h, lane)
		return
	case rose:
		if from, dead := b.dead[lane]; dead && lane >= 0 {
			b.born[lane] = b.moment(moment{lane: lane, what: rose})
			b.picture.gaps = append(b.picture.gaps, span{lane, from, b.born[lane]})
			delete(b.dead, lane)
		}
		return
	case remark, folded:
		b.moment(moment{lane: -1, words: h.words, row: true, what: h.what})
		return
	}
	now := b.moment(moment{
		lane: lane, number: number(h.record), words: h.words, version: h.version, notes: notes(h),
		what: h.what, broken: h.broken, row: true,
	})
	switch h.what {
	case wrote:
		b.at[h.record] = now
		b.stroke(strokeOf(h), lane, now, b.server, now)
	case refused:
		b.stroke("refused", lane, now, b.server, now)
	case called:
		b.stroke(strokeOf(h), lane, now, b.lane(h.callee), now)
	case befell:
		if _, dead := b.dead[lane]; !dead && lane >= 0 && trace.Dies(h.record) != "" {
			b.dead[lane] = now
			b.forget(lane, now)
		}
	}
	b.miss(h, lane)
}

// strokeOf is how something that was done is drawn.
func strokeOf(h *happening) ink {
	switch {
	case h.record.Lost:
		return "lost"
	case h.record.Err != nil:
		return "refused"
	default:
		return "write"
	}
}

// notes are what is said of somebody who acted without knowing all.
func notes(h *happening) []string {
	var all []string
	if len(h.since) > 0 {
		all = append(all, fmt.Sprintf("%s decided so in step %d, before %s", h.who, number(h.basis), steps(h.since)))
	}
	for _, b := range h.unaware {
		all = append(all, b.String())
	}
	return all
}

// steps gives "step 4", "steps 4 and 7", "steps 4, 7 and 9".
func steps(records []*trace.Record) string {
	words := make([]string, len(records))
	for i, r := range records {
		words[i] = fmt.Sprint(number(r))
	}
	if len(words) == 1 {
		return "step " + words[0]
	}
	last := len(words) - 1
	return "steps " + strings.Join(words[:last], ", ") + " and " + words[last]
}

// miss notes which writes who acts did not know of.
func (b *weaver) miss(h *happening, lane int) {
	if len(h.since) > 0 {
		if from, drawn := b.at[h.since[0]]; drawn {
			b.picture.blind = append(b.picture.blind, span{lane, from, len(b.picture.moments) - 1})
		}
	}
	for _, w := range h.missed {
		since, drawn := b.at[w]
		if _, known := b.blind[blindness{lane, w}]; drawn && !known {
			b.blind[blindness{lane, w}] = max(since, b.born[lane])
			b.open = append(b.open, blindness{lane, w})
		}
	}
}

// forget ends what somebody who dies does not know.
func (b *weaver) forget(lane, now int) {
	for _, which := range slices.Clone(b.open) {
		if which.lane == lane {
			b.sees(lane, which.write, now)
		}
	}
}

// hear draws that somebody hears of something.
func (b *weaver) hear(h *happening, lane int) {
	if lane < 0 {
		return
	}
	now := -1
	draw := func(what ink, from int) {
		if now < 0 {
			now = b.moment(moment{lane: lane, what: heard})
		}
		b.stroke(what, b.server, from, lane, now)
	}
	for _, w := range h.news {
		from, drawn := b.at[w]
		switch {
		case !drawn:
		case slices.Contains(h.late, w):
			draw("late", from)
			b.sees(lane, w, now)
		default:
			draw("news", from)
		}
	}
	if h.stale {
		if from, drawn := b.asOf(h.record); drawn {
			draw("old", from)
		}
	}
}

// sees ends that somebody does not know of a write.
func (b *weaver) sees(lane int, w *trace.Record, now int) {
	which := blindness{lane, w}
	if since, blind := b.blind[which]; blind {
		b.picture.blind = append(b.picture.blind, span{lane, since, now})
		delete(b.blind, which)
		b.open = slices.DeleteFunc(b.open, func(other blindness) bool { return other == which })
	}
}

// asOf is the moment of the last write that an old list shows.
func (b *weaver) asOf(list *trace.Record) (at int, drawn bool) {
	version := 0
	for w, moment := range b.at { // in any order: the newest is looked for
		if w.Resource() == list.Resource() && w.Version() <= list.Version() && w.Version() > version {
			at, version = moment, w.Version()
		}
	}
	return at, version > 0
}

// end ends what is not over.
func (b *weaver) end() {
	last := b.moment(moment{lane: -1})
	for _, which := range b.open {
		b.picture.blind = append(b.picture.blind, span{which.lane, b.blind[which], last})
		b.stroke("never", b.server, b.at[which.write], which.lane, last)
	}
	for lane := range b.picture.lanes {
		if from, dead := b.dead[lane]; dead {
			b.picture.gaps = append(b.picture.gaps, span{lane, from, last})
		}
	}
	slices.SortFunc(b.picture.blind, func(x, y span) int { return x.from - y.from })
}
