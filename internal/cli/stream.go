package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// blockedMax is how long a write may take after the context has ended.
const blockedMax = time.Second

// errBlocked is the error of a stream whose reader did not read while the program ended.
var errBlocked = errors.New("reader is blocked")

// Streams are the output streams of a program. All methods may be called concurrently.
type Streams struct {
	Out, Err *Stream
	ctx      context.Context //nolint:containedctx // ends the program
	end      context.CancelCauseFunc
}

// NewStreams returns the streams of a program that runs until ctx ends.
func NewStreams(ctx context.Context, stdout, stderr io.Writer) *Streams {
	s := &Streams{}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.Out = &Stream{w: stdout, ctx: s.ctx, name: "standard output", failed: s.end}
	s.Err = &Stream{w: stderr, ctx: s.ctx, name: "standard error", failed: func(error) {}}
	return s
}

// Context returns the context of the program. It ends with the context of NewStreams, and when
// standard output fails.
func (s *Streams) Context() context.Context { return s.ctx }

// A Stream is standard output or standard error. After a failed write it discards all output.
type Stream struct {
	w      io.Writer
	ctx    context.Context //nolint:containedctx // limits how long a write may take
	name   string
	failed func(error)

	mu  sync.Mutex
	err error // guarded by mu
}

// Write writes p, or returns the first error of the stream.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	p = bytes.Clone(p) // an abandoned write may still read it
	go func() {
		n, err := s.w.Write(p)
		done <- result{n, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-s.ctx.Done():
		late, stop := context.WithTimeout(context.WithoutCancel(s.ctx), blockedMax)
		defer stop()
		select {
		case r = <-done:
		case <-late.Done():
			r.err = errBlocked
		}
	}
	if r.err != nil {
		s.err = streamError(s.name, r.err)
		s.failed(s.err)
	}
	return r.n, s.err
}

// streamError returns the error of a write without the path of the device.
func streamError(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// firstError returns the error of the first failed write.
func (s *Stream) firstError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Width returns the width of the terminal behind a writer, and reports whether it is a terminal.
func Width(out io.Writer) (columns int, terminal bool) {
	if s, ok := out.(*Stream); ok {
		out = s.w
	}
	file, ok := out.(*os.File)
	if !ok {
		return 0, false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	return columns, err == nil
}

// isClosedPipe reports whether an error means that the reader of the output has ended.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
