//go:build amd64 || arm64

package process

import (
	"os"
	"time"

	"github.com/volsim/volsim/kubelet/container"
)

// Streams are those of an execution.
type streams struct {
	pumps    *pumps
	files    [3]*os.File // of the command; this program closes them when it has started
	stdin    *os.File    // what the client writes to; nil: nothing
	terminal bool
}

// openNothing returns streams that a terminal will be.
func openNothing(client container.Streams, now func() time.Time) (*streams, error) {
	return &streams{pumps: newPumps(client.Output, now), terminal: true}, nil
}

// openPipes returns streams that are pipes. Without a client that writes, stdin is an empty one: the command could change the
// mode of the machine's /dev/null.
func openPipes(client container.Streams, now func() time.Time) (*streams, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	pumps, err := newPipes(client.Output, now)
	if err != nil {
		reader.Close()
		writer.Close()
		return nil, err
	}
	s := &streams{pumps: pumps, files: [3]*os.File{reader, pumps.stdout(), pumps.stderr()}, stdin: writer}
	if client.Stdin == nil {
		writer.Close()
		s.stdin = nil
	}
	return s, nil
}

// openTerminal makes the streams a terminal of the run that the calling thread has entered.
func (s *streams) openTerminal() error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	s.pumps.add(container.Stdout, master, slave)
	s.files, s.stdin = [3]*os.File{slave, slave, slave}, master
	return nil
}

// started is called when the command has the streams, or never will.
func (s *streams) started() {
	if s.files[0] != nil {
		s.files[0].Close()
	}
	s.pumps.start()
}

// feed copies what a client writes, until it or the command has ended. A terminal has no end: its client writes ^D.
func (s *streams) feed(input *container.Input, ended <-chan struct{}) {
	feed(s.stdin, input, ended)
	s.closeInput()
}

// closeInput closes what a client writes to. A terminal is closed with its output.
func (s *streams) closeInput() {
	if s.stdin != nil && !s.terminal {
		s.stdin.Close()
	}
}

// ended copies the last output. The command has ended, or was not started.
func (s *streams) ended() {
	if s.stdin != nil {
		_ = s.stdin.SetWriteDeadline(time.Unix(1, 0)) // it fails only if it is closed
	}
	if s.terminal && len(s.pumps.pumps) > 0 {
		s.pumps.finishTerminal()
		return
	}
	s.pumps.finish()
}
