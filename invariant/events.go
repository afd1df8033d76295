package invariant

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// What is told to users.
var eventRules = []Rule{
	{"L9", "an event that is told over and over while nothing changes", beginEventRate},
}

// retryMax is the longest that somebody who tries again has to rest, for this rule: that of the scheduler. Events that come
// no faster are those of resyncs.
const retryMax = 10 * time.Second

// eventKey is an event as far as it is the same one again.
type eventKey struct {
	about                   types.UID
	source, reason, message string
}

// eventCount is how often an event came while nothing changed.
type eventCount struct {
	change int // the number of changes before
	times  int
	last   time.Time
}

// eventRate looks at how often events are told.
type eventRate struct {
	c       *Checker
	changes int       // how often the world changed
	at      time.Time // when it last did
	counts  map[eventKey]eventCount
}

// beginEventRate: while nobody writes anything, no driver is called and no request fails, an event comes again no sooner
// than an operation that fails each time would bring it. Event times are those at which they were told, in whole seconds, so
// that the first three of a second pass.
func beginEventRate(c *Checker) watcher {
	e := &eventRate{c: c, counts: map[eventKey]eventCount{}}
	return watcher{
		commits: []string{"events"},
		commit:  e.commit,
		call:    func(trace.Record) { e.changed() },
		event:   func(trace.Record) { e.changed() },
		request: func(r trace.Record) {
			if _, event := r.After.(*corev1.Event); r.Err != nil || r.After != nil && !event {
				e.changed()
			}
		},
	}
}

func (e *eventRate) changed() {
	e.changes++
	e.at = e.c.Now()
}

func (e *eventRate) commit(commit fake.Commit) {
	event := commit.After.(*corev1.Event)
	if commit.Type == "DELETED" {
		return
	}
	at := event.LastTimestamp.Time
	if !at.After(e.at) {
		return // told before, or when, something changed
	}
	key := eventKey{event.InvolvedObject.UID, event.ReportingController, event.Reason, event.Message}
	was := e.counts[key]
	if was.change != e.changes || was.times == 0 {
		e.counts[key] = eventCount{change: e.changes, times: 1, last: at}
		return
	}
	e.counts[key] = eventCount{change: e.changes, times: was.times + 1, last: at}
	if rest := min(backoffAfter(was.times), retryMax); at.Sub(was.last)+time.Second < rest {
		e.c.report("L9", "%s %s was told %d times of %q (%q) while nothing changed, the last time %v after the one before",
			event.InvolvedObject.Kind, objectName(event.InvolvedObject), was.times+1, event.Reason, event.Message, at.Sub(was.last))
	}
}

// objectName gives "namespace/name", or the name.
func objectName(ref corev1.ObjectReference) string {
	if ref.Namespace == "" {
		return ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}
