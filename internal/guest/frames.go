package guest

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A frameKind is the kind of a frame from the guest.
type frameKind byte

const (
	frameBooted      frameKind = 'u' // process 1 runs
	frameStdout      frameKind = 'o'
	frameStderr      frameKind = 'e'
	frameExited      frameKind = 'x' // exit status in four bytes; last frame
	frameStartFailed frameKind = 'b' // process 1 could not run the command, with the reason; last frame
)

const (
	headBytes       = 5
	payloadBytesMax = 1 << 20 // maximum payload of a frame, to detect invalid frames
)

// A frameWriter writes frames: kind, length in four bytes, payload. It is safe for concurrent use.
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

// An outputs writes frames of one kind.
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

// readFrame reads one frame. It returns io.EOF if the line ends between frames.
func readFrame(line io.Reader) (frameKind, []byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(line, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > payloadBytesMax {
		return 0, nil, fmt.Errorf("invalid frame of %d bytes", length)
	}
	payload := make([]byte, length)
	_, err := io.ReadFull(line, payload)
	return frameKind(head[0]), payload, err
}
