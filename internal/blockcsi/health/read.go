package health

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readPatience is the time that a device has to respond.
const readPatience = 5 * time.Second

// readers read devices, with one read at a time for each. The zero value is ready.
type readers struct {
	mu      sync.Mutex
	reading map[string]chan struct{} // by path; closed when the device has responded
}

// read reads the first and the last block of a device. A read that does not end is left running,
// and later calls for that device wait for it.
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
	if before != nil { // a read is running: wait for it, then read
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

func timeoutError(path string) error { return fmt.Errorf("%s does not respond to reads", path) }
