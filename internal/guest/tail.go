package guest

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// tailBytesMax is how many bytes of console output are kept.
const tailBytesMax = 4 << 10

// A tailWriter keeps the end of what is written and forwards everything.
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

// copyFrom writes everything read from a reader.
func (e *tailWriter) copyFrom(from io.Reader) { _, _ = io.Copy(e, from) }

func (e *tailWriter) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.TrimSpace(strings.ReplaceAll(string(e.text), "\r", ""))
}
