package fake

import (
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// event is one change in the log of a resource.
type event struct {
	kind     watch.EventType
	name     string // resource/key, as in the trace
	object   Object // for Deleted the last state, with the revision of the deletion
	previous Object // nil for Added
	revision int64
	detail   string // the revision, as in the trace
	at       int64  // the world's time in nanoseconds; 0 where no limit of age needs it
}

// detailPrefix is what comes before a revision in the trace.
const detailPrefix = "rv="

// detailOf is a revision as in the trace.
func detailOf(revision int64) string { return detailPrefix + formatRevision(revision) }

// history is how much of what happened to a resource is kept.
type history struct {
	events int           // at least so many; beyond twice as many the older half is dropped
	age    time.Duration // what is older is dropped at the next event; 0: however old
}

// eventLog is the events of one resource, in order of revision. A reader is a position: the number of events before the
// one it wants, counted from the beginning of time. What is in the log is never changed, so a part of it may be read
// without a lock once it has been sliced under one.
type eventLog struct {
	events    []event
	first     int64                  // position of events[0]
	end       atomic.Int64           // position after the last event; read without a lock
	window    atomic.Pointer[window] // events and first; read without a lock
	compacted int64                  // revision of the last event that was dropped
	history   history
	ended     bool // nothing will be appended
}

// window is the part of a log that is kept, as it was at one moment.
type window struct {
	events []event
	first  int64
}

// roomMin is from how many events on the room of a log is doubled when it is full.
const roomMin = 256

func (l *eventLog) append(e event) {
	if n := len(l.events); n == cap(l.events) && n >= roomMin {
		l.events = slices.Grow(l.events, min(n, 2*l.history.events))
	}
	l.events = append(l.events, e)
	if len(l.events) >= 2*l.history.events {
		l.compact(l.history.events)
	}
	l.expire(e.at - l.history.age.Nanoseconds())
	l.publish()
	l.end.Store(l.first + int64(len(l.events)))
}

// expire drops what was before a time, once it is a quarter of the log: so that an event is moved a few times at most.
func (l *eventLog) expire(before int64) {
	if l.history.age <= 0 || l.events[0].at >= before {
		return
	}
	n := sort.Search(len(l.events), func(i int) bool { return l.events[i].at >= before })
	if 4*n >= len(l.events) {
		l.compact(len(l.events) - n)
	}
}

// compact drops all but the last keep events.
func (l *eventLog) compact(keep int) {
	n := len(l.events) - keep
	if n <= 0 {
		return
	}
	l.compacted = l.events[n-1].revision
	l.first += int64(n)
	l.events = append(make([]event, 0, 2*keep), l.events[n:]...) // room for what comes before it is compacted again
	l.publish()
}

func (l *eventLog) publish() { l.window.Store(&window{l.events, l.first}) }

// closeLog ends the log: whoever has read what there is in it is told that what it wants was dropped.
func (t *table) closeLog() {
	t.log.ended = true
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// position returns where a reader begins that has seen everything up to a revision, and false if what comes next was
// dropped.
func (l *eventLog) position(revision int64) (int64, bool) {
	if revision < l.compacted {
		return 0, false
	}
	i := sort.Search(len(l.events), func(i int) bool { return l.events[i].revision > revision })
	return l.first + int64(i), true
}

// after returns the events after a revision, and false if some of them were dropped.
func (l *eventLog) after(revision int64) ([]event, bool) {
	p, ok := l.position(revision)
	if !ok {
		return nil, false
	}
	return l.events[p-l.first:], true
}

// reading is what a reader finds at its position.
type reading int

const (
	readEvent   reading = iota // an event
	readNothing                // no event yet
	readTooOld                 // the event was dropped
)

// read reads the event at a position, without a lock: it sees what is before end. Whether the log has ended it does not
// know; it finds nothing at the end of one.
func (l *eventLog) read(position int64) (e *event, found reading) {
	w := l.window.Load()
	if w == nil {
		return nil, readNothing
	}
	switch i := position - w.first; {
	case i < 0:
		return nil, readTooOld
	case i >= int64(len(w.events)):
		return nil, readNothing
	default:
		return &w.events[i], readEvent
	}
}
