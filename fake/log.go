package fake

import (
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// An event is one change in the log of a resource.
type event struct {
	kind     watch.EventType
	name     string // resource/key, as in the trace
	object   Object // for Deleted the last state, with the revision of the deletion
	previous Object // nil for Added
	revision int64
	detail   string // the revision, as in the trace
	at       int64  // time of the world in nanoseconds; 0 if the log has no age limit
	size     int    // of the object in bytes, approximately
}

// detailPrefix precedes a revision in the trace.
const detailPrefix = "rv="

// detailOf returns a revision as in the trace.
func detailOf(revision int64) string {
	if small := smallDetails(); 0 <= revision && revision < int64(len(small)) {
		return small[revision]
	}
	return detailPrefix + formatRevision(revision)
}

// smallDetails returns the texts of the revisions of a small world.
var smallDetails = sync.OnceValue(func() []string {
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = detailPrefix + strconv.Itoa(i)
	}
	return texts
})

// detailOfVersion is detailOf for a resourceVersion.
func detailOfVersion(version string) string {
	if revision, err := strconv.ParseInt(version, 10, 64); err == nil {
		if text := detailOf(revision); text[len(detailPrefix):] == version {
			return text
		}
	}
	return detailPrefix + version
}

// history limits the events that a log keeps.
type history struct {
	events int           // the minimum number; at twice as many the older half is dropped
	bytes  int           // the maximum size of their objects; above it the older half is dropped; 0: no limit
	age    time.Duration // older events are dropped at the next append; 0: no limit
}

// An eventLog has the events of one resource, in order of revision. A reader has a position: the
// number of events before the next one, since the beginning of the world. Events are immutable, so
// a window that was taken under the lock may be read without it.
type eventLog struct {
	events    []event
	first     int64                  // position of events[0]
	end       atomic.Int64           // position after the last event; read without a lock
	window    atomic.Pointer[window] // the memory of events; read without a lock
	compacted int64                  // revision of the last event that was dropped
	bytes     int                    // size of the objects
	history   history
	ended     bool // no event will be appended
}

// A window is the memory of the retained part of a log, up to its capacity. Its events before
// eventLog.end are written. It is replaced when the log gets other memory or drops events.
type window struct {
	events []event
	first  int64
}

// logMin is the capacity of a log with its first event.
const logMin = 4

// roomMin is the length from which on a full log doubles its capacity.
const roomMin = 256

func (l *eventLog) append(e event) {
	n := len(l.events)
	full := n == cap(l.events)
	switch {
	case n == 0 && full:
		l.events = make([]event, 0, logMin)
	case full && n >= roomMin:
		l.events = slices.Grow(l.events, min(n, 2*l.history.events))
	}
	l.events = append(l.events, e)
	if full {
		l.publish()
	}
	l.bytes += e.size
	if l.history.bytes > 0 && l.bytes > l.history.bytes {
		l.compact(l.fitting(l.history.bytes / 2))
	}
	if len(l.events) >= 2*l.history.events {
		l.compact(l.history.events)
	}
	l.expire(e.at - l.history.age.Nanoseconds())
	l.end.Store(l.first + int64(len(l.events)))
}

// expire drops the events before a time, once they are a quarter of the log. An event is therefore
// moved only a few times.
func (l *eventLog) expire(before int64) {
	if l.history.age <= 0 || l.events[0].at >= before {
		return
	}
	n := sort.Search(len(l.events), func(i int) bool { return l.events[i].at >= before })
	if 4*n >= len(l.events) {
		l.compact(len(l.events) - n)
	}
}

// fitting returns how many of the last events have a total size of at most so many bytes. The last
// one always counts.
func (l *eventLog) fitting(bytes int) int {
	n := 0
	for _, e := range slices.Backward(l.events) {
		if bytes -= e.size; bytes < 0 {
			break
		}
		n++
	}
	return max(1, n)
}

// compact drops all but the last keep events.
func (l *eventLog) compact(keep int) {
	n := len(l.events) - keep
	if n <= 0 {
		return
	}
	for _, e := range l.events[:n] {
		l.bytes -= e.size
	}
	l.compacted = l.events[n-1].revision
	l.first += int64(n)
	l.events = append(make([]event, 0, 2*keep), l.events[n:]...) // room for the events until the next compaction
	l.publish()
}

func (l *eventLog) publish() { l.window.Store(&window{l.events[:cap(l.events)], l.first}) }

// closeLog ends the log. A reader at its end gets readTooOld.
func (t *table) closeLog() {
	t.log.ended = true
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// define notes a change of the definition of a custom resource. Watches that began before end at
// this position.
func (t *table) define(generation int64) {
	if t.generation == generation {
		return
	}
	t.generation = generation
	t.definedFrom = append(t.definedFrom, t.log.end.Load())
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// position returns the position of a reader that has seen everything up to a revision. The bool is
// false if the next event was dropped.
func (l *eventLog) position(revision int64) (int64, bool) {
	if revision < l.compacted {
		return 0, false
	}
	i := sort.Search(len(l.events), func(i int) bool { return l.events[i].revision > revision })
	return l.first + int64(i), true
}

// after returns the events after a revision. The bool is false if some of them were dropped.
func (l *eventLog) after(revision int64) ([]event, bool) {
	p, ok := l.position(revision)
	if !ok {
		return nil, false
	}
	return l.events[p-l.first:], true
}

// A reading is the result of reading at a position.
type reading int

const (
	readEvent   reading = iota // an event
	readNothing                // no event yet
	readTooOld                 // the event was dropped
)

// read returns the event at a position before end, without a lock. At the end of a closed log it
// returns readNothing.
func (l *eventLog) read(position int64) (e *event, found reading) {
	end := l.end.Load() // before the window, which then has the events up to it or newer ones
	w := l.window.Load()
	if w == nil {
		return nil, readNothing
	}
	switch i := position - w.first; {
	case i < 0:
		return nil, readTooOld
	case position >= end:
		return nil, readNothing
	default:
		return &w.events[i], readEvent
	}
}
