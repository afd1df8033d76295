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

// outputMax is the maximum output of a cell in bytes. It limits memory until a cell that prints
// forever reaches its time limit.
const outputMax = 16 << 20

// A collector gathers the outputs of a program in order. It reads printed text before each
// displayed item, because the program printed that text first. Between two displayed items,
// standard output precedes standard error; their actual order is not known.
type collector struct {
	mu      sync.Mutex
	streams []*streamBuffer
	outputs []any
	size    int
	err     error
}

// A streamBuffer holds the text of a stream since the last displayed item.
type streamBuffer struct {
	name string
	read *os.File
	text bytes.Buffer
}

// stream adds a stream and returns its writing end for the program.
func (c *collector) stream(name string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &streamBuffer{name: name, read: r}
	c.streams = append(c.streams, p)
	return w, nil
}

// follow reads a stream until it is closed.
func (c *collector) follow(p *streamBuffer) {
	conn, err := p.read.SyscallConn()
	if err != nil {
		return
	}
	// Holding the lock from read to append ensures that no text is in transit.
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

// readAvailable appends the bytes that are in the pipe now.
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

// drain appends everything printed so far.
func (c *collector) drain() {
	for _, p := range c.streams {
		if conn, err := p.read.SyscallConn(); err == nil {
			_ = conn.Control(func(fd uintptr) { c.readAvailable(p, fd) })
		}
	}
}

// flush turns the text since the last displayed item into outputs.
func (c *collector) flush() {
	c.drain()
	for _, p := range c.streams {
		if p.text.Len() > 0 {
			c.outputs = append(c.outputs, streamOutput(p.name, p.text.String()))
			p.text.Reset()
		}
	}
}

// handle processes a message. It returns the number of the requested answer, if any.
func (c *collector) handle(d gonb.Display) (number int, answer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number, ok := d.SyncNumber(); ok {
		c.drain()
		return number, true
	}
	if _, ok := d.Data[gonb.CommMIME]; ok || d.DisplayID != "" {
		c.fail(fmt.Errorf("unsupported message to the front end: nbrun only supports displaying"))
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
			data[mime] = content // bytes are encoded in base64, like Jupyter
		}
	}
	metadata := d.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	storeAsPNG(data, metadata)
	c.outputs = append(c.outputs, map[string]any{"output_type": "display_data", "data": data, "metadata": metadata})
	return 0, false
}

func (c *collector) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// finish returns all outputs. If the program failed, the last one is its status.
func (c *collector) finish(status string) ([]any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain()
	if c.size > outputMax {
		c.fail(fmt.Errorf("output exceeds %d MiB", outputMax>>20))
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

// close closes the streams without the lock, which their readers may hold.
func (c *collector) close() {
	for _, p := range c.streams {
		p.read.Close()
	}
}
