package guest

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// tailBytesMax is how much of the kernel's words is kept.
const tailBytesMax = 4 << 10

// tailWriter keeps the end of what is written, and hands all on.
type tailWriter struct {
	also io.Writer
	mu   sync.Mutex
	text []byte
}

func (e *tailWriter) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, p...)
	if over := len(e.text) - tailBytesMax; over > 0 {
		e.text = slices.Delete(e.text, 0, over)
	}
	if e.also != nil {
		return e.also.Write(p)
	}
	return len(p), nil
}

// copyFrom takes what is read, to its end.
func (e *tailWriter) copyFrom(from io.Reader) { _, _ = io.Copy(e, from) }

func (e *tailWriter) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.TrimSpace(strings.ReplaceAll(string(e.text), "\r", ""))
}
