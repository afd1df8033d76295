package invariant

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about events for users.
var eventRules = []builtIn{
	{"L9", "an event repeated too often while nothing changes", beginEventRate},
}

// retryMax is the longest delay between retries that this rule expects: that of the scheduler.
// Events at a lower rate are those of resyncs.
const retryMax = 10 * time.Second

// An eventKey identifies repetitions of an event.
type eventKey struct {
	about                   types.UID
	source, reason, message string
}

// An eventCount is how often an event was repeated while nothing changed.
type eventCount struct {
	change int // number of changes before
	times  int
	last   time.Time
}

// eventRate is the state of L9: the rate of each event.
type eventRate struct {
	c       *Checker
	changes int       // number of changes of the world
	at      time.Time // time of the last change
	counts  map[eventKey]eventCount
}

// beginEventRate checks the rate of events. While there is no write, driver call or failed request,
// an event must not be repeated faster than a failing operation with back-off would repeat it.
// Event times have whole seconds, so the first three within a second are allowed.
func beginEventRate(c *Checker) watcher {
	e := &eventRate{c: c, counts: reuse.Map[eventKey, eventCount](c.Reuse)}
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
		return // sent before, or when, something changed
	}
	key := eventKey{event.InvolvedObject.UID, event.ReportingController, event.Reason, event.Message}
	was := e.counts[key]
	if was.change != e.changes || was.times == 0 {
		e.counts[key] = eventCount{change: e.changes, times: 1, last: at}
		return
	}
	e.counts[key] = eventCount{change: e.changes, times: was.times + 1, last: at}
	if rest := min(backoffAfter(was.times), retryMax); at.Sub(was.last)+time.Second < rest {
		e.c.report("L9", "%s %s had %d events %q (%q) while nothing changed, the last one %v after the one before",
			event.InvolvedObject.Kind, objectName(event.InvolvedObject), was.times+
				1, event.Reason, event.Message, at.Sub(was.last))
	}
}

// objectName returns "namespace/name", or the name of a cluster-scoped object.
func objectName(ref corev1.ObjectReference) string {
	if ref.Namespace == "" {
		return ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}
