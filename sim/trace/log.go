package trace

import (
	"slices"
	"strings"
	"sync"
)

// Log holds the records of one world in the order in which the actions took effect. The zero value is ready.
// All methods may be called concurrently.
type Log struct {
	// Max is how many of the last records are kept at least; beyond twice as many, the older half is dropped. 0: all are
	// kept. To be set before the first record.
	Max int

	mu      sync.Mutex
	steps   int        // so far
	kept    int        // records in pieces, without those that were dropped
	pieces  [][]Record // the records one after the other; all but the last are full
	dropped int        // how many were dropped of the first piece
	spare   [][]Record // rooms of pieces that were dropped
	watch   []func(Record)
}

// How many records a piece has room for: each twice as many as the one before, from the least to the most. What stands in
// a piece is never moved, so that a long log costs no more for each record than a short one.
const (
	pieceMin = 32
	pieceMax = 1024
)

// Append numbers the record and keeps it. The functions given to Watch are called with it before Append returns.
func (l *Log) Append(r Record) {
	l.mu.Lock()
	l.steps++
	r.Step = l.steps
	l.keep(r)
	if l.Max > 0 && l.kept >= 2*l.Max {
		l.drop(l.kept - l.Max)
	}
	watch := l.watch
	l.mu.Unlock()
	for _, f := range watch {
		f(r)
	}
}

// keep puts a record behind the others. The caller holds mu.
func (l *Log) keep(r Record) {
	last := len(l.pieces) - 1
	if last < 0 || len(l.pieces[last]) == cap(l.pieces[last]) {
		l.pieces = append(l.pieces, l.newPiece())
		last++
	}
	l.pieces[last] = append(l.pieces[last], r)
	l.kept++
}

// newPiece makes room for a piece. The caller holds mu.
func (l *Log) newPiece() []Record {
	if last := len(l.spare) - 1; last >= 0 {
		room := l.spare[last]
		l.spare = l.spare[:last]
		return room
	}
	if len(l.pieces) == 0 {
		return make([]Record, 0, pieceMin)
	}
	return make([]Record, 0, min(2*cap(l.pieces[len(l.pieces)-1]), pieceMax))
}

// drop lets go of the first n records. The caller holds mu.
func (l *Log) drop(n int) {
	l.kept -= n
	n += l.dropped
	whole := 0
	for ; n >= len(l.pieces[whole]); whole++ {
		n -= len(l.pieces[whole])
		clear(l.pieces[whole])
		l.spare = append(l.spare, l.pieces[whole][:0])
	}
	l.pieces = slices.Delete(l.pieces, 0, whole)
	clear(l.pieces[0][:n])
	l.dropped = n
}

// Watch calls f for every record from now on, on the goroutine of whoever acted; f must not block or act on the world.
func (l *Log) Watch(f func(Record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = append(l.watch[:len(l.watch):len(l.watch)], f)
}

// Records returns the records that are kept. The slice is the caller's; the objects in it are read-only.
func (l *Log) Records() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.pieces...)[l.dropped:]
}

// Len returns how many records are kept.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// Steps returns how many records were appended.
func (l *Log) Steps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steps
}

// Text returns the log as text, a line a record.
func (l *Log) Text() string {
	var b strings.Builder
	for _, r := range l.Records() {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Parse reads a log's text back. The error names the first bad line.
func Parse(text string) ([]Line, error) {
	var lines []Line
	for s := range strings.Lines(text) {
		l, err := ParseLine(strings.TrimSuffix(s, "\n"))
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}
