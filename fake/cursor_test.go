package fake

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// BenchmarkFanout100Cursors is one commit read by a hundred watches.
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
	l := eventLog{max: 4}
	for r := int64(1); r <= 11; r++ {
		l.append(event{revision: r})
	}
	// 8 events made it drop 4; 3 more came, then 1 more would make it 8 again.
	if l.first != 4 || len(l.events) != 7 || l.compacted != 4 || l.end.Load() != 11 {
		t.Errorf("got first %d, %d events, compacted %d, end %d", l.first, len(l.events), l.compacted, l.end.Load())
	}
	if _, found := l.at(3); found != readTooOld {
		t.Errorf("read of a dropped event: %d", found)
	}
	if e, found := l.at(4); found != readEvent || e.revision != 5 {
		t.Errorf("got %v, %d", e, found)
	}
	if _, found := l.at(11); found != readNothing {
		t.Errorf("read past the end: %d", found)
	}
	if p, ok := l.position(4); !ok || p != 4 {
		t.Errorf("position after revision 4: %d, %v", p, ok)
	}
	if _, ok := l.position(3); ok {
		t.Error("position after a dropped revision")
	}
}
