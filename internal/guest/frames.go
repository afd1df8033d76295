package guest

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// frameKind is what a frame of the line from the guest is.
type frameKind byte

const (
	frameBooted frameKind = 'u' // process 1 runs
	stdout      frameKind = 'o'
	stderr      frameKind = 'e'
	exited      frameKind = 'x' // an exit status, four bytes; the last frame
	startFailed frameKind = 'b' // process 1 could not run the command: why; the last frame
)

const (
	headBytes       = 5
	payloadBytesMax = 1 << 20 // bytes of one frame: a bound for what is not a frame
)

// frameWriter writes frames: a kind, a length of four bytes, and as many bytes. It may be used by several goroutines.
type frameWriter struct {
	mu   sync.Mutex
	line io.Writer
}

func (s *frameWriter) writeFrame(k frameKind, payload []byte) error {
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
	to   *frameWriter
	kind frameKind
}

func (o outputs) Write(p []byte) (int, error) {
	if err := o.to.writeFrame(o.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// readFrame reads one frame. It gives io.EOF when the line ended between two.
func readFrame(line io.Reader) (frameKind, []byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(line, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > payloadBytesMax {
		return 0, nil, fmt.Errorf("a frame of %d bytes: that is no frame", length)
	}
	payload := make([]byte, length)
	_, err := io.ReadFull(line, payload)
	return frameKind(head[0]), payload, err
}
