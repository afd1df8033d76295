//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/volsim/volsim/internal/gonb"
)

// outputMax is how much a cell may put out, in bytes. A cell that prints forever is found by its time limit; this keeps it from
// filling the memory until then.
const outputMax = 16 << 20

// collector gathers what a program puts out, in the order in which it did it. What it printed is read when it shows something, since
// it printed that before; between two things shown, what it printed on standard output comes first and what on standard error
// second, whatever the order was: nobody can tell.
type collector struct {
	mu      sync.Mutex
	streams []*streamBuffer
	outputs []any
	size    int
	err     error
}

// streamBuffer is what came over one stream since something was shown.
type streamBuffer struct {
	name string
	read *os.File
	text bytes.Buffer
}

// stream begins a stream, and returns the end that the program writes to.
func (c *collector) stream(name string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &streamBuffer{name: name, read: r}
	c.streams = append(c.streams, p)
	return w, nil
}

// follow reads a stream as the program fills it, until it is closed.
func (c *collector) follow(p *streamBuffer) {
	conn, err := p.read.SyscallConn()
	if err != nil {
		return
	}
	// The lock is held from before the reading until after the keeping: nothing is ever on its way.
	for {
		ended := false
		if conn.Read(func(fd uintptr) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			var some bool
			some, ended = c.readAvailable(p, fd)
			return some || ended
		}) != nil || ended {
			return
		}
	}
}

// readAvailable keeps what is in the pipe now.
func (c *collector) readAvailable(p *streamBuffer, fd uintptr) (some, ended bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(int(fd), buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return some, err != syscall.EAGAIN
		}
		some = true
		if c.size += n; c.size <= outputMax {
			p.text.Write(buf[:n])
		}
	}
}

// drain keeps what was printed until now.
func (c *collector) drain() {
	for _, p := range c.streams {
		if conn, err := p.read.SyscallConn(); err == nil {
			_ = conn.Control(func(fd uintptr) { c.readAvailable(p, fd) })
		}
	}
}

// flush makes outputs of what was printed since something was shown.
func (c *collector) flush() {
	c.drain()
	for _, p := range c.streams {
		if p.text.Len() > 0 {
			c.outputs = append(c.outputs, streamOutput(p.name, p.text.String()))
			p.text.Reset()
		}
	}
}

// handle does what a message says, and returns the number of the answer it asks for, if it asks for one.
func (c *collector) handle(d gonb.Display) (number int, answer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number, ok := d.SyncNumber(); ok {
		c.drain()
		return number, true
	}
	if _, ok := d.Data[gonb.CommMIME]; ok || d.DisplayID != "" {
		c.fail(fmt.Errorf("the program wants something of the front end; nbrun has none: it shows things, and no more"))
		return 0, false
	}
	c.flush()
	data := map[string]any{}
	for mime, content := range d.Data {
		switch content := content.(type) {
		case string:
			data[mime] = splitLines(content)
			c.size += len(content)
		default:
			data[mime] = content // bytes are written in base 64, as Jupyter does
		}
	}
	metadata := d.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	c.outputs = append(c.outputs, map[string]any{"output_type": "display_data", "data": data, "metadata": metadata})
	return 0, false
}

func (c *collector) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// finish returns all outputs. The last is what the system says of a program that ended badly.
func (c *collector) finish(status string) ([]any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain()
	if c.size > outputMax {
		c.fail(fmt.Errorf("it puts out more than %d MiB", outputMax>>20))
	}
	if status != "" {
		for _, p := range c.streams {
			if p.name == "stderr" {
				text := untrace(p.text.String()) + status + "\n"
				p.text.Reset()
				p.text.WriteString(text)
			}
		}
	}
	c.flush()
	return c.outputs, c.err
}

// close ends the streams. It waits for those who follow them, who may be waiting for the lock.
func (c *collector) close() {
	for _, p := range c.streams {
		p.read.Close()
	}
}
