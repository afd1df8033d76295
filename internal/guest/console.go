package guest

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// endingMax is how much of the kernel's words is kept.
const endingMax = 4 << 10

// ending keeps the end of what is written, and hands all on.
type ending struct {
	also io.Writer
	mu   sync.Mutex
	text []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, p...)
	if over := len(e.text) - endingMax; over > 0 {
		e.text = slices.Delete(e.text, 0, over)
	}
	if e.also != nil {
		return e.also.Write(p)
	}
	return len(p), nil
}

// take takes what is read, to its end.
func (e *ending) take(from io.Reader) { _, _ = io.Copy(e, from) }

func (e *ending) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.TrimSpace(strings.ReplaceAll(string(e.text), "\r", ""))
}
