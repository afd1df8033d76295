package container

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// The streams of a command, as in an Entry.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// An Entry is what a command has written at once.
type Entry struct {
	At     time.Time // of the world
	Stream string
	Text   []byte // read-only
}

// An Output is what a command has written so far. It never blocks the writer. It is safe for concurrent use.
type Output struct {
	mu      sync.Mutex
	entries []Entry
	size    int
	dropped int
	max     int
	closed  bool
	window  int           // see SetWindow; 0: none
	wake    func()        // called after Discard; nil: nothing is
	changed chan struct{} // closed at the next change; nil: no reader waits
}

// NewOutput returns an empty output that keeps the last max bytes, or somewhat more; 0 means all.
func NewOutput(max int) *Output { return &Output{max: max} }

// Write appends an entry. The oldest ones are dropped beyond the limit.
func (o *Output) Write(at time.Time, stream string, text []byte) {
	if len(text) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entries = append(o.entries, Entry{At: at, Stream: stream, Text: slices.Clone(text)})
	for o.size += len(text); o.max > 0 && o.size > o.max && len(o.entries) > 1; o.dropped++ {
		o.size -= len(o.entries[0].Text)
		o.entries[0] = Entry{}
		o.entries = o.entries[1:]
	}
	o.notify()
}

// SetWindow lets the writer wait while it has written that many bytes that were not discarded: the reader calls
// Discard.
func (o *Output) SetWindow(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.window = bytes
}

// Discard forgets the entries before a position, which were read, and wakes the writer.
func (o *Output) Discard(position int) {
	o.mu.Lock()
	for ; o.dropped < position && len(o.entries) > 0; o.dropped++ {
		o.size -= len(o.entries[0].Text)
		o.entries[0] = Entry{}
		o.entries = o.entries[1:]
	}
	wake := o.wake
	o.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Full reports whether the writer should wait; see SetWindow.
func (o *Output) Full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.window > 0 && o.size >= o.window && !o.closed
}

// Wake registers what is called after each Discard, by the reader's goroutine.
func (o *Output) Wake(wake func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake = wake
}

// Close says that nothing will be written any more.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.notify()
}

func (o *Output) notify() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// Read returns the entries from a position on, and the position after them. Positions begin at 0. ended says that none will
// follow. changed is closed when there is more to read; nil if ended.
func (o *Output) Read(position int) (entries []Entry, next int, ended bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := max(0, position-o.dropped)
	entries, next = slices.Clone(o.entries[min(from, len(o.entries)):]), o.dropped+len(o.entries)
	if o.closed {
		return entries, next, true, nil
	}
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return entries, next, false, o.changed
}

// Text returns what was written to a stream and not dropped; "" means both.
func (o *Output) Text(stream string) string {
	var b strings.Builder
	entries, _, _, _ := o.Read(0)
	for _, e := range entries {
		if stream == "" || e.Stream == stream {
			b.Write(e.Text)
		}
	}
	return b.String()
}

// An Input is what a command can read. Its writer is a client: Write never blocks. It is safe for concurrent
// use.
type Input struct {
	mu     sync.Mutex
	data   []byte
	closed bool
	wake   func()
	taken  chan struct{} // closed by the next Take; nil: nothing waits
}

// NewInput returns an input without data.
func NewInput() *Input { return &Input{} }

// Write adds data.
func (i *Input) Write(data []byte) (int, error) {
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	i.data = append(i.data, data...)
	wake := i.wake
	i.mu.Unlock()
	if wake != nil {
		wake()
	}
	return len(data), nil
}

// Close says that nothing will be written any more. It returns no error.
func (i *Input) Close() error {
	i.mu.Lock()
	i.closed = true
	wake := i.wake
	i.mu.Unlock()
	if wake != nil {
		wake()
	}
	return nil
}

// Wake registers what is called after each Write and Close, by the writer's goroutine.
func (i *Input) Wake(wake func()) {
	i.mu.Lock()
	i.wake = wake
	i.mu.Unlock()
}

// Full returns a channel that is closed when some of the data has been taken, if there are that many bytes that were not;
// otherwise nil. A writer can wait for it.
func (i *Input) Full(bytes int) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || len(i.data) < bytes {
		return nil
	}
	if i.taken == nil {
		i.taken = make(chan struct{})
	}
	return i.taken
}

// Ready reports whether Take has data, or never will.
func (i *Input) Ready() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.data) > 0 || i.closed
}

// Take moves up to len(p) bytes into p. The error is io.EOF when all was taken and the input is closed. Without data it
// returns 0 and no error.
func (i *Input) Take(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := copy(p, i.data)
	if i.taken != nil && n > 0 {
		close(i.taken)
		i.taken = nil
	}
	if i.data = i.data[n:]; n == 0 && i.closed {
		return 0, io.EOF
	}
	return n, nil
}

// Streams are those of a command that is executed in a container.
type Streams struct {
	Stdin  *Input  // nil: empty
	Output *Output // stdout and stderr, in the order of writing; the runtime closes it at the end
	TTY    bool    // stderr is written to stdout
	Ended  func()  // called, by any goroutine, when the command has ended; nil: nothing is
}

// An Execution is a command that is executed in a container.
type Execution struct {
	Done <-chan struct{} // closed when the command has ended
	Code func() int32    // its exit code; after Done
	Kill func()          // ends it: the client has gone
}

// Ended reports whether the command has ended.
func (e *Execution) Ended() bool {
	select {
	case <-e.Done:
		return true
	default:
		return false
	}
}
