package shell

import (
	"bytes"
	"io"
	"slices"
	"syscall"

	"github.com/volsim/volsim/kubelet/container"
)

// A stream is what a file descriptor refers to. read waits for data, and returns io.EOF at the end.
type stream interface {
	read(t *task, p []byte) (int, error)
	write(t *task, data []byte) (int, error)
	close(t *task)
}

// A handle is an open file description: descriptors that were duplicated share it.
type handle struct {
	stream
	refs int
}

// descriptors are the file descriptors of a process.
type descriptors struct{ table map[int]*handle }

func newDescriptors() *descriptors { return &descriptors{map[int]*handle{}} }

func (d *descriptors) get(fd int) *handle { return d.table[fd] }

// set puts a handle in a free place.
func (d *descriptors) set(fd int, h *handle) {
	h.refs++
	d.table[fd] = h
}

// clone returns the descriptors of a forked process.
func (d *descriptors) clone() *descriptors {
	made := newDescriptors()
	for fd, h := range d.table { // any order: only counts change
		made.set(fd, h)
	}
	return made
}

// release closes a handle that has no other descriptor.
func (h *handle) release(t *task) {
	if h.refs--; h.refs == 0 {
		h.close(t)
	}
}

// closeAll closes all descriptors, in their order.
func (d *descriptors) closeAll(t *task) {
	for _, fd := range d.sorted() {
		h := d.table[fd]
		delete(d.table, fd)
		h.release(t)
	}
}

func (d *descriptors) sorted() []int {
	fds := make([]int, 0, len(d.table))
	for fd := range d.table { // any order: sorted below
		fds = append(fds, fd)
	}
	slices.Sort(fds)
	return fds
}

// flush writes what was written to files.
func (d *descriptors) flush(t *task) error {
	var first error
	for _, fd := range d.sorted() {
		if f, ok := d.table[fd].stream.(*fileStream); ok {
			if err := f.flush(t); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

type nullStream struct{}

func (nullStream) read(*task, []byte) (int, error)         { return 0, io.EOF }
func (nullStream) write(_ *task, data []byte) (int, error) { return len(data), nil }
func (nullStream) close(*task)                             {}

type zeroStream struct{ nullStream }

func (zeroStream) read(_ *task, p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type fullStream struct{ zeroStream }

func (fullStream) write(*task, []byte) (int, error) { return 0, syscall.ENOSPC }

// An outputStream writes to the log of a run, or to the client of an execution.
type outputStream struct {
	output *container.Output
	name   string
}

func (o *outputStream) read(*task, []byte) (int, error) { return 0, io.EOF }

func (o *outputStream) write(t *task, data []byte) (int, error) {
	if o.output.Full() {
		t.wait("output to be read", 0, func() bool { return !o.output.Full() })
	}
	o.output.Write(t.now(), o.name, data)
	return len(data), nil
}

func (*outputStream) close(*task) {}

// An inputStream reads what a client writes.
type inputStream struct{ input *container.Input }

func (i *inputStream) read(t *task, p []byte) (int, error) {
	for {
		n, err := i.input.Take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if !t.wait("input", 0, i.input.Ready) {
			return 0, syscall.EINTR
		}
	}
}

func (*inputStream) write(*task, []byte) (int, error) { return 0, syscall.EBADF }
func (*inputStream) close(*task)                      {}

// A bufferStream collects what a command substitution writes, or holds a here-document.
type bufferStream struct{ bytes.Buffer }

func (b *bufferStream) read(_ *task, p []byte) (int, error)     { return b.Read(p) }
func (b *bufferStream) write(_ *task, data []byte) (int, error) { return b.Write(data) }
func (*bufferStream) close(*task)                               {}

// pipeMax is the capacity of a pipe.
const pipeMax = 64 << 10

// A pipe connects two processes of a container.
type pipe struct {
	data                     []byte
	readerClosed, writerOpen bool
}

type pipeReader struct{ *pipe }

type pipeWriter struct{ *pipe }

// newPipe returns the two ends of a pipe.
func newPipe() (reader, writer *handle) {
	p := &pipe{writerOpen: true}
	return &handle{stream: pipeReader{p}}, &handle{stream: pipeWriter{p}}
}

func (p pipeReader) read(t *task, to []byte) (int, error) {
	ready := func() bool { return len(p.data) > 0 || !p.writerOpen }
	if !t.wait("pipe", 0, ready) {
		return 0, syscall.EINTR
	}
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.data)
	p.data = p.data[n:]
	t.c.notify()
	return n, nil
}

func (pipeReader) write(*task, []byte) (int, error) { return 0, syscall.EBADF }

func (p pipeReader) close(t *task) {
	p.readerClosed, p.data = true, nil
	t.c.notify()
}

func (pipeWriter) read(*task, []byte) (int, error) { return 0, syscall.EBADF }

func (p pipeWriter) write(t *task, data []byte) (int, error) {
	written := 0
	for {
		if p.readerClosed {
			panic(exit{128 + signals["PIPE"]})
		}
		n := min(len(data), pipeMax-len(p.data))
		p.data = append(p.data, data[:n]...)
		data = data[n:]
		written += n
		t.c.notify()
		if len(data) == 0 {
			return written, nil
		}
		t.wait("room in a pipe", 0, func() bool { return len(p.data) < pipeMax || p.readerClosed })
	}
}

func (p pipeWriter) close(t *task) {
	p.writerOpen = false
	t.c.notify()
}
