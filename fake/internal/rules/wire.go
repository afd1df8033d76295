package rules

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Message is an API object, or a part of one, that has a protobuf wire form.
type Message interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// Same reports whether two messages have the same wire form. Semantically equal messages may differ
// in wire form.
func Same(a, b Message) bool {
	n := a.Size()
	if n != b.Size() {
		return false
	}
	buf := make([]byte, 2*n)
	_, errA := a.MarshalToSizedBuffer(buf[:n])
	_, errB := b.MarshalToSizedBuffer(buf[n:])
	return errA == nil && errB == nil && slices.Equal(buf[:n], buf[n:])
}

// Truncate drops the fraction of a second of each time: the wire carries whole seconds. A nil time
// is skipped.
func Truncate(times ...*metav1.Time) {
	for _, t := range times {
		if t != nil && t.Nanosecond() != 0 {
			t.Time = time.Unix(t.Unix(), 0).UTC()
		}
	}
}
