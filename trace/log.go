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
	steps   int // so far
	records []Record
	watch   []func(Record)
}

// Append numbers the record and keeps it. The functions given to Watch are called with it before Append returns.
func (l *Log) Append(r Record) {
	l.mu.Lock()
	l.steps++
	r.Step = l.steps
	l.records = append(l.records, r)
	if l.Max > 0 && len(l.records) >= 2*l.Max {
		l.records = slices.Clone(l.records[l.Max:])
	}
	watch := l.watch
	l.mu.Unlock()
	for _, f := range watch {
		f(r)
	}
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
	return append([]Record(nil), l.records...)
}

// Len returns how many records are kept.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
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
