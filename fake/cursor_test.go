package fake

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// BenchmarkFanout100Cursors measures one commit read by a hundred watches.
func BenchmarkFanout100Cursors(b *testing.B) {
	s := NewServer(Config{Now: func() time.Time { return time.Unix(0, 0) }})
	t := s.table("nodes")
	cursors := make([]*Cursor, 100)
	for i := range cursors {
		c, err := s.newCursor(t.kind, "", &metav1.ListOptions{ResourceVersion: "4"})
		if err != nil {
			b.Fatal(err)
		}
		cursors[i] = c
	}
	var node Object
	b.ReportAllocs()
	for b.Loop() {
		next := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if node == nil {
			s.commit(t, watch.Added, "n", nil, next)
		} else {
			s.commit(t, watch.Modified, "n", node, next)
		}
		node = next
		for _, c := range cursors {
			if e, ok, err := c.Next(); !ok || err != nil || e.Object != node {
				b.Fatal(e, ok, err)
			}
		}
	}
}

func TestLogDropsItsOlderHalf(t *testing.T) {
	l := eventLog{history: history{events: 4}}
	for r := int64(1); r <= 11; r++ {
		l.append(event{revision: r})
	}
	// With 8 events the log drops 4. It gets 3 more; a fourth would make it drop again.
	if l.first != 4 || len(l.events) != 7 || l.compacted != 4 || l.end.Load() != 11 {
		t.Errorf("got first %d, %d events, compacted %d, end %d", l.first, len(l.events), l.compacted, l.end.Load())
	}
	if _, found := l.read(3); found != readTooOld {
		t.Errorf("read of a dropped event: %d", found)
	}
	if e, found := l.read(4); found != readEvent || e.revision != 5 {
		t.Errorf("got %v, %d", e, found)
	}
	if _, found := l.read(11); found != readNothing {
		t.Errorf("read past the end: %d", found)
	}
	if p, ok := l.position(4); !ok || p != 4 {
		t.Errorf("position after revision 4: %d, %v", p, ok)
	}
	if _, ok := l.position(3); ok {
		t.Error("position after a dropped revision")
	}
}

func TestLogDropsLargeEvents(t *testing.T) {
	l := eventLog{history: history{events: 100, bytes: 100}}
	for r := int64(1); r <= 10; r++ {
		l.append(event{revision: r, size: 10})
	}
	if l.first != 0 || l.bytes != 100 {
		t.Errorf("got first %d, %d bytes, want all", l.first, l.bytes)
	}
	l.append(event{revision: 11, size: 10})
	if l.first != 6 || len(l.events) != 5 || l.bytes != 50 || l.compacted != 6 {
		t.Errorf("got first %d, %d events, %d bytes, compacted %d, want half", l.first, len(l.events), l.bytes, l.compacted)
	}
	l.append(event{revision: 12, size: 1000})
	if l.first != 11 || len(l.events) != 1 || l.bytes != 1000 {
		t.Errorf("got first %d, %d events, %d bytes, want the last event", l.first, len(l.events), l.bytes)
	}
	if e, found := l.read(11); found != readEvent || e.revision != 12 {
		t.Errorf("got %v, %d", e, found)
	}
	l.append(event{revision: 13, size: 1})
	if l.first != 12 || l.bytes != 1 {
		t.Errorf("got first %d, %d bytes, want the last event", l.first, l.bytes)
	}
}

// A log of large objects is bounded. A watch that was overtaken gets 410 Expired.
func TestHistoryBytes(t *testing.T) {
	for _, custom := range []bool{false, true} {
		s := NewServer(Config{Now: time.Now, HistoryBytes: 100_000})
		s.Install(CustomKind{Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Kind: "Widget"})
		large := strings.Repeat("x", 10_000)
		id := "configmaps"
		var obj Object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Data: map[string]string{"a": large}}
		if custom {
			id = "widgets.example.com"
			obj = &CustomObject{Content: map[string]any{"spec": []any{large}}}
		}
		k := s.table(id).kind
		c, err := s.newCursor(k, "", &metav1.ListOptions{ResourceVersion: formatRevision(s.Revision())})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			one := obj.DeepCopyObject().(Object)
			one.SetName("m" + strconv.Itoa(i))
			if _, err := (writer{Server: s}).create(k, one.GetNamespace(), one, false); err != nil {
				t.Fatal(err)
			}
			if log := &s.table(id).log; log.bytes > 100_000 {
				t.Fatalf("%s: a log of %d events, %d bytes", id, len(log.events), log.bytes)
			}
		}
		if _, _, err := c.Next(); !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: got %v, want 410", id, err)
		}
	}
}

func TestLogDropsOldEvents(t *testing.T) {
	l := eventLog{history: history{events: 100, age: 10}}
	for r := int64(1); r <= 40; r++ {
		l.append(event{revision: r, at: r})
		oldest, newest := l.events[0].at, r
		if tooOld := newest - 10 - oldest; 4*tooOld >= int64(len(l.events)) && tooOld > 0 {
			t.Errorf("at %d: oldest event %d, of %d", newest, oldest, len(l.events))
		}
		if oldest > max(newest-10, 1) {
			t.Errorf("at %d: events before %d were dropped", newest, oldest)
		}
		if l.compacted != l.first {
			t.Errorf("compacted %d, want %d", l.compacted, l.first)
		}
	}
}

// watcher returns a cursor in a world whose clock the test controls.
func watcher(t *testing.T, opts metav1.ListOptions) (s *Server, c *Cursor, pass func(time.Duration)) {
	t.Helper()
	now := time.Unix(0, 0)
	s = NewServer(Config{Now: func() time.Time { return now }})
	c, err := s.newCursor(kindsByID["nodes"], "", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return s, c, func(d time.Duration) { now = now.Add(d) }
}

// next returns the next event of a cursor in short form.
func next(t *testing.T, c *Cursor) string {
	t.Helper()
	e, ok, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	obj := e.Object.(Object)
	return string(e.Type) + " " + obj.GetName() + " " + obj.GetResourceVersion()
}

func TestBookmarksReportProgress(t *testing.T) {
	s, c, pass := watcher(t, metav1.ListOptions{ResourceVersion: "4", AllowWatchBookmarks: true})
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	steps := []struct {
		name string
		do   func()
		want string
	}{
		{"nothing happened", func() { pass(2 * bookmarkPeriod) }, ""},
		{"something else was written, just now", func() { must(s.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})) }, ""},
		{"a minute later", func() { pass(bookmarkPeriod) }, "BOOKMARK  5"},
		{"once only", func() { pass(bookmarkPeriod) }, ""},
		{"an event comes first", func() { pass(bookmarkPeriod); must(s.Add(node("n"))) }, "ADDED n 6"},
		{"which tells as much", func() {}, ""},
		{"compaction does no harm", func() {
			must(s.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "y"}}))
			s.Compact()
			pass(bookmarkPeriod)
		}, "BOOKMARK  7"},
	}
	for _, step := range steps {
		step.do()
		if got := next(t, c); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

func TestBookmarkDue(t *testing.T) {
	timeout := int64(90)
	_, c, pass := watcher(t, metav1.ListOptions{
		ResourceVersion: "4", AllowWatchBookmarks: true,
		TimeoutSeconds: &timeout,
	})
	for _, want := range []int64{60, 88, 148} {
		due, ok := c.BookmarkDue()
		if !ok || due.Unix() != want {
			t.Errorf("due at %d, %v, want %d", due.Unix(), ok, want)
		}
		pass(time.Duration(want)*time.Second - time.Duration(c.server.now().Unix())*time.Second)
		next(t, c)
	}
	_, c, _ = watcher(t, metav1.ListOptions{ResourceVersion: "4"})
	if _, ok := c.BookmarkDue(); ok {
		t.Error("bookmark due without AllowWatchBookmarks")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	s := NewServer(Config{Now: func() time.Time { return now }, HistoryEvents: 8, HistoryAge: time.Minute})
	lazy, err := s.newCursor(kindsByID["nodes"], "", &metav1.ListOptions{ResourceVersion: "4"})
	if err != nil {
		t.Fatal(err)
	}
	nodes := s.table("nodes")
	for i := range 100 {
		must(s.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + formatRevision(int64(i))}}))
		if n := len(nodes.log.events); n > 16 {
			t.Fatalf("%d events kept", n)
		}
	}
	now = now.Add(time.Hour)
	must(s.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "last"}}))
	if n := len(nodes.log.events); n != 1 {
		t.Errorf("%d events kept after an hour", n)
	}
	if _, _, err := lazy.Next(); !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v, want expired", err)
	}
}
