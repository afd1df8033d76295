package health

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readPatience is how long a device has to answer.
const readPatience = 5 * time.Second

// readers read devices, each by one read at a time. The zero value is ready.
type readers struct {
	mu      sync.Mutex
	reading map[string]chan struct{} // by path; closed when the device has answered
}

// read reads the first and the last block of a device. A read that does not end
// stays behind, and is what later ones of that device are told of.
func (r *readers) read(ctx context.Context, path string, sizeBytes int64) error {
	r.mu.Lock()
	if r.reading == nil {
		r.reading = map[string]chan struct{}{}
	}
	before := r.reading[path]
	done, failed := make(chan struct{}), error(nil)
	if before == nil {
		r.reading[path] = done
		go func() {
			failed = readEnds(path, sizeBytes)
			r.mu.Lock()
			delete(r.reading, path)
			r.mu.Unlock()
			close(done)
		}()
	}
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	if before != nil { // somebody reads it: wait for that one, and read it then
		select {
		case <-before:
			return r.read(ctx, path, sizeBytes)
		case <-ctx.Done():
			return timeoutError(path)
		}
	}
	select {
	case <-done:
		return failed
	case <-ctx.Done():
		return timeoutError(path)
	}
}

func timeoutError(path string) error { return fmt.Errorf("%s does not answer when it is read", path) }
