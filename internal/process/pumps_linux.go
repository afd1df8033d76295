//go:build amd64 || arm64

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/kubelet/container"
)

// readBytes is how much is read from a command at once.
const readBytes = 32 << 10

// Pumps copy what a command writes to an output. While the output is full they read nothing, so the command waits.
type pumps struct {
	output *container.Output
	now    func() time.Time
	pumps  []*pump
	stop   chan struct{} // closed when the client has gone
	end    func()        // closes stop
	done   sync.WaitGroup
}

// A pump copies one stream.
type pump struct {
	reader, writer *os.File
	stream         string
	room           chan struct{} // has an element when the output may have room again
}

// newPumps returns pumps without streams.
func newPumps(output *container.Output, now func() time.Time) *pumps {
	p := &pumps{output: output, now: now, stop: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.stop) })
	return p
}

// newPipes returns pumps for stdout and stderr.
func newPipes(output *container.Output, now func() time.Time) (*pumps, error) {
	p := newPumps(output, now)
	for _, stream := range []string{container.Stdout, container.Stderr} {
		reader, writer, err := os.Pipe()
		if err != nil {
			p.closeWriters()
			p.start()
			p.finish()
			return nil, err
		}
		p.add(stream, reader, writer)
	}
	return p, nil
}

// own gives the streams to a user, who may open them again, as /dev/stdout.
func (p *pumps) own(user, group int64) error {
	var errs []error
	for _, each := range p.pumps {
		errs = append(errs, each.writer.Chown(int(user), int(group)))
	}
	return errors.Join(errs...)
}

func (p *pumps) add(stream string, reader, writer *os.File) {
	p.pumps = append(p.pumps, &pump{reader, writer, stream, make(chan struct{}, 1)})
}

func (p *pumps) stdout() *os.File { return p.pumps[0].writer }
func (p *pumps) stderr() *os.File { return p.pumps[len(p.pumps)-1].writer }

// closeWriters closes this program's ends of the streams: the command has them.
func (p *pumps) closeWriters() {
	for _, each := range p.pumps {
		each.writer.Close()
	}
}

// start begins to copy. The command has started, or never will.
func (p *pumps) start() {
	p.closeWriters()
	p.output.Wake(func() {
		for _, each := range p.pumps {
			select {
			case each.room <- struct{}{}:
			default:
			}
		}
	})
	for _, each := range p.pumps {
		p.done.Add(1)
		go func() {
			defer p.done.Done()
			p.copy(each)
			each.reader.Close()
		}()
	}
}

// terminalGrace is how long the last output of a terminal may take: the kernel passes it on later.
const terminalGrace = 100 * time.Millisecond

// finishTerminal is finish for a terminal. Usually it ends with the command.
func (p *pumps) finishTerminal() {
	ctx, cancel := context.WithTimeout(context.Background(), terminalGrace)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = p.pumps[0].reader.SetReadDeadline(time.Unix(1, 0)) })
	p.done.Wait()
}

// finish copies what the command has written, and returns. The command has ended; processes that it has started
// may still have its streams.
func (p *pumps) finish() {
	for _, each := range p.pumps {
		_ = each.reader.SetReadDeadline(time.Unix(1, 0)) // it fails only if the pump has ended
	}
	p.done.Wait()
}

// copy copies a stream to its end, or until finish.
func (p *pumps) copy(each *pump) {
	buffer := make([]byte, readBytes)
	for {
		n, err := each.reader.Read(buffer)
		if !p.write(each, buffer[:n]) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drain(each, buffer)
			return
		}
		if err != nil {
			return
		}
	}
}

// drain copies what is in the pipe.
func (p *pumps) drain(each *pump, buffer []byte) {
	if each.reader.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for left := available(each.reader); left > 0; {
		n, err := each.reader.Read(buffer[:min(left, len(buffer))])
		if !p.write(each, buffer[:n]) || err != nil {
			return
		}
		left -= n
	}
}

// available returns the number of bytes in a pipe.
func available(file *os.File) int {
	n := 0
	raw, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) //nolint:gosec // a descriptor
	if err != nil {
		return 0
	}
	return n
}

// write writes to the output when it has room, and reports whether the client is still there.
func (p *pumps) write(each *pump, data []byte) bool {
	for p.output.Full() {
		select {
		case <-each.room:
		case <-p.stop:
			return false
		}
	}
	p.output.Write(p.now(), each.stream, data)
	return true
}

// feed copies what a client writes to a command, until either has ended.
func feed(to io.Writer, input *container.Input, ended <-chan struct{}) {
	more := make(chan struct{}, 1)
	input.Wake(func() {
		select {
		case more <- struct{}{}:
		default:
		}
	})
	buffer := make([]byte, readBytes)
	for {
		n, err := input.Take(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		if err != nil {
			return
		}
		select {
		case <-more:
		case <-ended:
			return
		}
	}
}
