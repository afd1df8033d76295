package kubeletserver

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/kubelet/container"
)

// timestampFormat is that of a line's time.
//
// Upstream: k8s.io/cri-client/pkg/logs RFC3339NanoFixed (v1.36).
const timestampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// A line is one line of a log, with its end.
type line struct {
	at     time.Time // when its end was written
	stream string
	text   []byte
}

// A logReader reads the lines of a run's output that are wanted. Without follow it ends with what is written already. With
// follow it waits for more, and ends with the run. Read and Close are called by one goroutine each.
//
// A line appears when it is complete, as in the files that container runtimes write: lines of stdout and stderr are not
// mixed. The last line of a run is complete when the run ends; it gets the end that it lacks.
//
// Differs: a line may have any length; container runtimes divide longer ones after 16 KiB.
//
// Upstream: k8s.io/cri-client/pkg/logs ReadLogs (v1.36).
type logReader struct {
	output  *container.Output
	opts    *corev1.PodLogOptions
	since   time.Time
	stopped <-chan struct{} // see Host.Stopped

	ctx    context.Context //nolint:containedctx // it is the reader's life
	cancel context.CancelFunc

	position int              // of the output
	begun    bool             // the first lines were read
	partial  map[string]*line // lines without an end, by stream
	wanted   []string         // streams
	remain   int64            // bytes until the limit
	ready    []byte           // not yet read
	ended    bool             // nothing follows ready
}

// newLogReader returns a reader of an output. It ends with ctx too.
func newLogReader(ctx context.Context, host Host, output *container.Output, opts *corev1.PodLogOptions) *logReader {
	l := &logReader{
		output: output, opts: opts, stopped: host.Stopped(), partial: map[string]*line{}, remain: math.MaxInt64,
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	switch *opts.Stream {
	case corev1.LogStreamStdout:
		l.wanted = []string{container.Stdout}
	case corev1.LogStreamStderr:
		l.wanted = []string{container.Stderr}
	default:
		l.wanted = []string{container.Stdout, container.Stderr}
	}
	switch {
	case opts.SinceSeconds != nil:
		l.since = host.Now().Add(-time.Duration(min(*opts.SinceSeconds, math.MaxInt64/int64(time.Second))) * time.Second)
	case opts.SinceTime != nil:
		l.since = opts.SinceTime.Time
	}
	if opts.LimitBytes != nil {
		l.remain = *opts.LimitBytes
	}
	return l
}

// Close ends the reader. It returns no error.
func (l *logReader) Close() error {
	l.cancel()
	return nil
}

// Read returns what was written. With follow it waits if there is nothing. The error is io.EOF at the end, or that of the
// context.
func (l *logReader) Read(p []byte) (int, error) {
	for len(l.ready) == 0 {
		if l.ended {
			return 0, io.EOF
		}
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// next makes the lines ready that were written since the last call. With follow it waits if there are none.
func (l *logReader) next() error {
	entries, position, ended, changed := l.output.Read(l.position)
	l.position = position
	lines := l.complete(entries, ended)
	if !l.begun {
		l.begun = true
		if tail := l.opts.TailLines; tail != nil && *tail < int64(len(lines)) {
			lines = lines[int64(len(lines))-*tail:]
		}
	}
	for i := range lines {
		l.format(&lines[i])
	}
	switch {
	case l.ended || ended || !l.opts.Follow:
		l.ended = true
		return nil
	case len(l.ready) > 0:
		return nil
	}
	select {
	case <-changed:
	case <-l.stopped:
		l.ended = true
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	return nil
}

// complete returns the lines that entries complete, in the order of their ends. With last, it completes all others too.
func (l *logReader) complete(entries []container.Entry, last bool) []line {
	var lines []line
	for _, e := range entries {
		for text := range bytes.Lines(e.Text) {
			begun := l.partial[e.Stream]
			if begun == nil {
				begun = &line{stream: e.Stream}
				l.partial[e.Stream] = begun
			}
			begun.at, begun.text = e.At, append(begun.text, text...)
			if text[len(text)-1] == '\n' {
				lines = append(lines, *begun)
				delete(l.partial, e.Stream)
			}
		}
	}
	if !last {
		return lines
	}
	for _, stream := range []string{container.Stdout, container.Stderr} {
		if begun := l.partial[stream]; begun != nil {
			begun.text = append(begun.text, '\n')
			lines = append(lines, *begun)
			delete(l.partial, stream)
		}
	}
	return lines
}

// format makes a line ready if it is wanted, as far as the limit allows.
//
// Upstream: k8s.io/cri-client/pkg/logs logWriter.write (v1.36).
func (l *logReader) format(one *line) {
	if l.ended || one.at.Before(l.since) || !slices.Contains(l.wanted, one.stream) {
		return
	}
	text := one.text
	if l.opts.Timestamps {
		text = append(append(one.at.UTC().AppendFormat(nil, timestampFormat), ' '), text...)
	}
	if int64(len(text)) > l.remain {
		text = text[:l.remain]
	}
	l.ready = append(l.ready, text...)
	l.remain -= int64(len(text))
	l.ended = l.remain <= 0
}
