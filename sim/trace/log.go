package trace

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// A Log holds the records of one world, in the order in which the actions took effect. The zero
// value is ready to use. All methods may be called concurrently.
type Log struct {
	// Max is the minimum number of last records to keep. At twice as many, the older half is
	// dropped. 0 keeps all records. Set it before the first record.
	Max int
	// Omit, if not nil, reports whether a record is dropped: it gets no number, and no function given to
	// Watch is called with it. Set it before the first record.
	Omit func(Record) bool
	// KeepReads makes the log keep the reads from caches; see Reads. Set it before the first of them.
	KeepReads bool

	mu      sync.Mutex
	steps   int        // records appended so far
	kept    int        // records in pieces, without those that were dropped
	pieces  [][]Record // the records in order; all pieces but the last are full
	dropped int        // records dropped from the first piece
	spare   [][]Record // dropped pieces, for reuse
	watch   []func(Record)
	reads   []Read
	callers map[int][]uintptr // by step

	conditions []Condition // by name
}

// The capacity of a piece doubles from pieceMin to pieceMax. Records in a piece never move, so that
// a long log costs no more per record than a short one.
const (
	pieceMin = 32
	pieceMax = 1024
)

// Append numbers the record and keeps it. It calls the functions given to Watch before it returns.
func (l *Log) Append(r Record) { l.append(r, nil) }

// AppendCall is Append for a call with its call stack; see Callers.
func (l *Log) AppendCall(r Record, callers []uintptr) { l.append(r, callers) }

func (l *Log) append(r Record, callers []uintptr) {
	if l.Omit != nil && l.Omit(r) {
		return
	}
	l.mu.Lock()
	l.steps++
	r.Step = l.steps
	l.keep(r)
	if callers != nil {
		if l.callers == nil {
			l.callers = map[int][]uintptr{}
		}
		l.callers[r.Step] = callers
	}
	if l.Max > 0 && l.kept >= 2*l.Max {
		l.drop(l.kept - l.Max)
	}
	watch := l.watch
	l.mu.Unlock()
	for _, f := range watch {
		f(r)
	}
}

// keep appends a record. The caller holds mu.
func (l *Log) keep(r Record) {
	last := len(l.pieces) - 1
	if last < 0 || len(l.pieces[last]) == cap(l.pieces[last]) {
		l.pieces = append(l.pieces, l.newPiece())
		last++
	}
	l.pieces[last] = append(l.pieces[last], r)
	l.kept++
}

// newPiece returns an empty piece. The caller holds mu.
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

// drop drops the first n records. The caller holds mu.
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

// Watch calls f for every record from now on, on the goroutine that acted. f must not block or act
// on the world.
func (l *Log) Watch(f func(Record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = append(l.watch[:len(l.watch):len(l.watch)], f)
}

// Records returns the records that are kept. The caller owns the slice; the objects in it are
// read-only.
func (l *Log) Records() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.pieces...)[l.dropped:]
}

// Backward returns an iterator over the records that are kept, the last one first. Records that are
// appended during the iteration are not part of it.
func (l *Log) Backward() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		l.mu.Lock()
		pieces, dropped := slices.Clone(l.pieces), l.dropped
		l.mu.Unlock()
		for i, piece := range slices.Backward(pieces) {
			if i == 0 {
				piece = piece[dropped:]
			}
			for j := range slices.Backward(piece) {
				if !yield(piece[j]) {
					return
				}
			}
		}
	}
}

// Reset empties the log for another world. It keeps the memory of the records and the exported fields.
// The functions given to Watch are no longer called.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, piece := range slices.Backward(l.pieces) {
		clear(piece)
		l.spare = append(l.spare, piece[:0])
	}
	clear(l.pieces)
	l.pieces = l.pieces[:0]
	l.steps, l.kept, l.dropped = 0, 0, 0
	l.watch, l.reads, l.callers, l.conditions = nil, nil, nil, nil
}

// Len returns the number of records that are kept.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// Callers returns the call stack of the call with the record of that step, for
// runtime.CallersFrames. It is empty unless the host records stacks.
func (l *Log) Callers(step int) []uintptr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callers[step]
}

// Steps returns the number of records that were appended.
func (l *Log) Steps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steps
}

// A Read is what a client of a process has read from a cache of that process. It is no action: it
// takes no step, and nothing happens meanwhile. It is not part of the text of a log.
type Read struct {
	Step    int // of the last record before the read
	Task    string
	Verb    string // get or list
	Object  string // as in the action of a request: "pods/default/web", "pods/default"
	Version int    // the version up to which the cache had seen the resource
	Items   int    // number of objects; 0: none was found
	// Selects reports whether a list selects an object. nil: all objects of its namespace.
	Selects func(obj runtime.Object) bool
}

// AppendRead keeps a read, if KeepReads is set. It sets its Step.
func (l *Log) AppendRead(r Read) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.KeepReads {
		r.Step = l.steps
		l.reads = append(l.reads, r)
	}
}

// Reads returns the reads from caches, in order. The caller owns the slice.
func (l *Log) Reads() []Read {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reads)
}

// Text returns the log as text, one line per record.
func (l *Log) Text() string {
	var b strings.Builder
	for _, r := range l.Records() {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Parse parses the text of a log. The error names the first invalid line.
func Parse(text string) ([]Line, error) {
	var lines []Line
	for s := range strings.Lines(text) {
		l, err := parseLine(strings.TrimSuffix(s, "\n"))
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}
