package guest

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// kind is what a frame of the line from the guest is.
type kind byte

const (
	up     kind = 'u' // process 1 runs
	stdout kind = 'o'
	stderr kind = 'e'
	exited kind = 'x' // an exit status, four bytes; the last frame
	broken kind = 'b' // process 1 could not run the command: why; the last frame
)

const (
	headBytes   = 5
	payloadsMax = 1 << 20 // bytes of one frame: a bound for what is not a frame
)

// sender writes frames: a kind, a length of four bytes, and as many bytes. It may be used by several goroutines.
type sender struct {
	mu   sync.Mutex
	line io.Writer
}

func (s *sender) send(k kind, payload []byte) error {
	frame := make([]byte, headBytes, headBytes+len(payload))
	frame[0] = byte(k)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	frame = append(frame, payload...)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.line.Write(frame)
	return err
}

// outputs is a writer of one kind of frame.
type outputs struct {
	to   *sender
	kind kind
}

func (o outputs) Write(p []byte) (int, error) {
	if err := o.to.send(o.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// receive reads one frame. It gives io.EOF when the line ended between two.
func receive(line io.Reader) (kind, []byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(line, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > payloadsMax {
		return 0, nil, fmt.Errorf("a frame of %d bytes: that is no frame", length)
	}
	payload := make([]byte, length)
	_, err := io.ReadFull(line, payload)
	return kind(head[0]), payload, err
}
