package fake_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// cursor has the methods of fake.Cursor that a watcher uses.
type cursor interface {
	Next() (watch.Event, bool, error)
}

// told is an event, as far as the laws are concerned.
type errorValue struct {
	kind     watch.EventType
	revision int64
	name     string
	selected bool  // its object is selected
	before   int64 // of a deletion: its object, except for the revision, is the state at before
}

// session is one watch, from start to end.
type session struct {
	selector string
	from     int64 // the revision it starts after; -1: with initial events
	events   []errorValue
	drained  bool // all events were read
}

// history has the commits.
type history struct{ commits []fake.Commit }

func selects(selector string, obj fake.Object) bool {
	return obj != nil && (selector == "" || obj.GetLabels()["n"] == "1")
}

// state returns the selected objects at a revision: resourceVersions by name.
func (h history) state(selector string, at int64) map[string]int64 {
	state := map[string]int64{}
	for _, c := range h.commits {
		if c.Revision > at {
			break
		}
		delete(state, c.After.GetName())
		if c.Type != watch.Deleted && selects(selector, c.After) {
			state[c.After.GetName()] = c.Revision
		}
	}
	return state
}

// after returns the events that a watch must send after a revision.
func (h history) after(selector string, from int64) []errorValue {
	var all []errorValue
	for _, c := range h.commits {
		if c.Revision <= from {
			continue
		}
		is, old := c.Type != watch.Deleted && selects(selector, c.After), selects(selector, c.Before)
		e := errorValue{kind: watch.Modified, revision: c.Revision, name: c.After.GetName(), selected: true}
		switch {
		case is && !old:
			e.kind = watch.Added
		case old && !is:
			e.kind = watch.Deleted
			e.before, _ = strconv.ParseInt(c.Before.GetResourceVersion(), 10, 64)
		case !is:
			continue
		}
		all = append(all, e)
	}
	return all
}

// broken lists the laws that a session breaks.
func (h history) broken(s session) []string {
	laws := map[string]bool{}
	first, rest, from := s.begun(laws)
	if s.from < 0 && from >= 0 && !maps.Equal(first, h.state(s.selector, from)) {
		laws["complete beginning"] = true
	}
	if from < 0 {
		return slices.Sorted(maps.Keys(laws)) // its initial events are incomplete
	}
	want := h.after(s.selector, from)
	h.follow(s, laws, h.state(s.selector, from), rest, from, want)
	if s.drained && len(rest) > 0 && len(rest) < len(want) || s.drained && len(rest) == 0 && len(want) > 0 {
		laws["reliable"] = true
	}
	return slices.Sorted(maps.Keys(laws))
}

// begun splits a session into its initial state, the later events, and the revision in between.
func (s session) begun(laws map[string]bool) (map[string]int64, []errorValue, int64) {
	if s.from >= 0 {
		return nil, s.events, s.from
	}
	first := map[string]int64{}
	for i, e := range s.events {
		if e.kind == watch.Bookmark {
			return first, s.events[i+1:], e.revision
		}
		if _, twice := first[e.name]; twice {
			laws["unique"] = true
		}
		if e.kind != watch.Added {
			laws["is-create"] = true
		}
		first[e.name] = e.revision
	}
	return first, nil, -1
}

// follow compares events with the expected ones.
func (h history) follow(s session, laws map[string]bool, state map[string]int64, events []errorValue, from int64,
	want []errorValue,
) {
	seen := map[errorValue]bool{}
	last, bookmark := from, from
	for i, e := range events {
		if e.kind == watch.Bookmark {
			if e.revision < last || i+1 < len(events) && events[i+1].revision <= e.revision {
				laws["bookmarkable"] = true
			}
			bookmark = max(bookmark, e.revision)
			continue
		}
		if seen[errorValue{revision: e.revision, name: e.name}] {
			laws["unique"] = true
		}
		seen[errorValue{revision: e.revision, name: e.name}] = true
		if e.revision < last {
			laws["ordered"] = true
		}
		if e.revision <= from {
			laws["resumable"] = true
		}
		if !e.selected {
			laws["filter"] = true
		}
		last = max(last, e.revision)
		old, there := state[e.name]
		if there != (e.kind != watch.Added) {
			laws["is-create"] = true
		}
		if e.kind == watch.Deleted {
			if e.before != old {
				laws["prev-object"] = true
			}
			delete(state, e.name)
		} else {
			state[e.name] = e.revision
		}
	}
	for _, w := range want {
		if w.revision <= last && !seen[errorValue{revision: w.revision, name: w.name}] {
			laws["reliable"] = true
		}
	}
}

// watcher reads a cursor, and finds in the log what deletions show.
type watcher struct {
	session
	cursor cursor
	log    *history
}

// read reads at most n events, and reports whether the watch expired.
func (w *watcher) read(rt *rapid.T, n int) bool {
	for range n {
		e, ok, err := w.cursor.Next()
		if apierrors.IsResourceExpired(err) {
			return true
		}
		if err != nil {
			rt.Fatalf("watch: %v", err)
		}
		if !ok {
			w.drained = true
			return false
		}
		w.events = append(w.events, w.log.told(w.selector, e))
	}
	w.drained = false
	return false
}

func (h history) told(selector string, e watch.Event) errorValue {
	obj := e.Object.(fake.Object)
	revision, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	out := errorValue{kind: e.Type, revision: revision, name: obj.GetName(), selected: selects(selector, obj)}
	if e.Type != watch.Deleted {
		return out
	}
	for _, c := range h.commits { // find the state that it shows
		if c.After.GetName() == obj.GetName() && c.Revision <= revision && c.Type != watch.Deleted && sameBut(c.After, obj) {
			out.before = c.Revision
		}
	}
	return out
}

// sameBut reports whether two claims are equal except for their revisions.
func sameBut(a, b fake.Object) bool {
	x, y := a.DeepCopyObject().(*corev1.PersistentVolumeClaim), b.DeepCopyObject().(*corev1.PersistentVolumeClaim)
	x.ResourceVersion, y.ResourceVersion = "", ""
	return equality.Semantic.DeepEqual(x, y)
}

// interleave draws writes, watches, reads, reconnections and compactions. It returns the sessions
// and the history.
func interleave(rt *rapid.T, ctx context.Context) (history, []session) {
	s := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	c := s.Client(direct)
	var log history
	s.OnCommit(func(c fake.Commit) {
		if c.Resource == "persistentvolumeclaims" {
			log.commits = append(log.commits, c)
		}
	})
	claims, _ := c.Resource(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default")
	var open []*watcher
	var done []session
	begin := func(selector string, from int64) {
		opts := metav1.ListOptions{LabelSelector: selector, AllowWatchBookmarks: true}
		if from < 0 {
			opts.SendInitialEvents, opts.ResourceVersionMatch = ptr.To(true), metav1.ResourceVersionMatchNotOlderThan
		} else {
			opts.ResourceVersion = strconv.FormatInt(from, 10)
		}
		is, err := claims.Watch(ctx, opts)
		if apierrors.IsResourceExpired(err) {
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		open = append(open, &watcher{session: session{selector: selector, from: from}, cursor: is, log: &log})
	}
	begin("", -1)
	begin("n=1", -1)
	for range rapid.IntRange(5, 60).Draw(rt, "acts") {
		switch rapid.SampledFrom([]string{"write", "write", "write", "read", "watch", "reconnect", "compact"}).Draw(rt, "act") {
		case "write":
			write(rt, ctx, c)
		case "watch":
			begin(rapid.SampledFrom([]string{"", "n=1"}).Draw(rt, "selector"),
				rapid.SampledFrom([]int64{-1, s.Revision()}).Draw(rt, "from"))
		case "compact":
			s.Compact("persistentvolumeclaims")
		case "read", "reconnect":
			if len(open) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(rt, "watcher")
			w := open[i]
			gone := w.read(rt, rapid.IntRange(1, 5).Draw(rt, "events"))
			if !gone && len(w.events) > 0 && rapid.Bool().Draw(rt, "goes") {
				w.drained = false
				open = slices.Delete(open, i, i+1)
				done = append(done, w.session)
				if last := w.events[len(w.events)-1]; w.from >= 0 || slices.ContainsFunc(w.events, func(e errorValue) bool { return e.kind == watch.Bookmark }) {
					begin(w.selector, last.revision)
				}
			}
		}
	}
	for _, w := range open {
		w.drained = !w.read(rt, 1000) && w.drained
		done = append(done, w.session)
	}
	return log, done
}

// For any interleaving of writers, watchers, reconnections and compactions, every watch keeps all
// laws.
func TestWatchLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, sessions := interleave(rt, t.Context())
		for _, s := range sessions {
			if broken := log.broken(s); len(broken) > 0 {
				rt.Fatalf("broken: %v by a watch of %q from %d: %+v", broken, s.selector, s.from, s.events)
			}
		}
	})
}

// liar is a cursor that falsifies the events of another.
type liar struct {
	is   cursor
	lie  func(queue []watch.Event) []watch.Event // applied to all events
	told []watch.Event
}

// Next returns the next falsified event.
func (l *liar) Next() (watch.Event, bool, error) {
	if l.lie == nil {
		if len(l.told) == 0 {
			return watch.Event{}, false, nil
		}
		e := l.told[0]
		l.told = l.told[1:]
		return e, true, nil
	}
	for {
		e, ok, err := l.is.Next()
		if err != nil {
			return e, false, err
		}
		if !ok {
			break
		}
		l.told = append(l.told, e)
	}
	l.told, l.lie = l.lie(l.told), nil
	return l.Next()
}

// at returns a copy of an event's claim, at another revision.
func at(e watch.Event, kind watch.EventType, change func(*corev1.PersistentVolumeClaim)) watch.Event {
	c := e.Object.DeepCopyObject().(*corev1.PersistentVolumeClaim)
	change(c)
	return watch.Event{Type: kind, Object: c}
}

// Each law is broken once by a watch that falsifies: a created, a relabelled, b created, a deleted.
func TestEveryWatchLawIsChecked(t *testing.T) {
	same := func(*corev1.PersistentVolumeClaim) {}
	for _, test := range []struct {
		law string
		lie func(q []watch.Event) []watch.Event
	}{
		{"", func(q []watch.Event) []watch.Event { return q }},
		{"ordered", func(q []watch.Event) []watch.Event { q[1], q[2] = q[2], q[1]; return q }},
		{"unique", func(q []watch.Event) []watch.Event { return slices.Insert(q, 2, q[1]) }},
		{"reliable", func(q []watch.Event) []watch.Event { return slices.Delete(q, 1, 2) }},
		{"reliable", func(q []watch.Event) []watch.Event { return q[:3] }},
		{"filter", func(q []watch.Event) []watch.Event {
			q[1] = at(q[1], q[1].Type, func(c *corev1.PersistentVolumeClaim) { c.Labels["n"] = "2" })
			return q
		}},
		{"is-create", func(q []watch.Event) []watch.Event { q[1] = at(q[1], watch.Added, same); return q }},
		{"is-create", func(q []watch.Event) []watch.Event { q[0] = at(q[0], watch.Modified, same); return q }},
		{"prev-object", func(q []watch.Event) []watch.Event {
			last := len(q) - 1
			q[last] = at(q[last], watch.Deleted, func(c *corev1.PersistentVolumeClaim) { c.Labels["m"] = "1" })
			return q
		}},
		{"resumable", func(q []watch.Event) []watch.Event {
			early := at(q[0], watch.Added, func(c *corev1.PersistentVolumeClaim) { c.Name, c.ResourceVersion = "z", "1" })
			return slices.Insert(q, 0, early)
		}},
		{"bookmarkable", func(q []watch.Event) []watch.Event {
			mark := at(q[3], watch.Bookmark, same)
			return slices.Insert(q, 1, mark)
		}},
	} {
		t.Run(test.law, func(t *testing.T) {
			w := newWorld(t)
			var log history
			w.Server.OnCommit(func(c fake.Commit) { log.commits = append(log.commits, c) })
			from := w.Server.Revision()
			free := func(c *corev1.PersistentVolumeClaim) { c.Labels["n"] = "1" }
			w.create("a", free)
			w.patch("a", `{"metadata":{"finalizers":null}}`)
			w.create("b", free)
			w.patch("a", `{"metadata":{"labels":{"k":"v"}}}`)
			w.delete("a")
			claims, _ := w.User.Resource(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default")
			is := testcheck.Must(claims.Watch(w.Context(), metav1.ListOptions{
				ResourceVersion: strconv.FormatInt(from, 10), LabelSelector: "n=1",
			}))
			liar := &liar{is: is, lie: test.lie}
			s := session{selector: "n=1", from: from, drained: true}
			for e, ok, err := liar.Next(); ok; e, ok, err = liar.Next() {
				if err != nil {
					t.Fatal(err)
				}
				s.events = append(s.events, log.told(s.selector, e))
			}
			got := log.broken(s)
			if test.law == "" && len(got) > 0 || test.law != "" && !slices.Contains(got, test.law) {
				t.Errorf("broken: %v; want %q", got, test.law)
			}
		})
	}
}
