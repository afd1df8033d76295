package health

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUnresponsiveDeviceIsReadOnce reads a pipe without a writer, which blocks on open.
func TestUnresponsiveDeviceIsReadOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	r := &readers{}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := r.read(ctx, pipe, blockBytes); err == nil || !strings.Contains(err.Error(), "does not respond") {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	r.mu.Lock()
	reading := r.reading[pipe]
	r.mu.Unlock()
	if reading == nil {
		t.Fatal("the read of the pipe has ended")
	}
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // unblocks the read, which fails at once
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
	<-reading
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reading) != 0 {
		t.Errorf("still reading: %v", r.reading)
	}
}
