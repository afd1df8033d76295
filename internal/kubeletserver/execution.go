package kubeletserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/kubelet/container"
)

// The first byte of a message: the stream that the rest belongs to, or closeSignal, which a stream follows.
//
// Upstream: k8s.io/apimachinery/pkg/util/remotecommand StreamStdIn and its like.
const (
	stdinChannel  = 0
	stdoutChannel = 1
	stderrChannel = 2
	errorChannel  = 3
	closeSignal   = 255
)

const (
	// messageBytesMax is the limit of a message's size.
	//
	// Upstream: golang.org/x/net/websocket DefaultMaxPayloadBytes.
	messageBytesMax = 32 << 20
	// stallMax is how long a client may not read what the command writes.
	stallMax = time.Minute
	// windowBytes is how much is held of what one side has written and the other has not read.
	windowBytes = 1 << 20
	// closeMax is how long a client may take to close its side.
	closeMax = 10 * time.Second
)

// Reason of a command that failed, and the type of the cause that has its code.
//
// Upstream: k8s.io/apimachinery/pkg/util/remotecommand NonZeroExitCodeReason, ExitCodeCauseType.
const (
	reasonNonZeroExitCode = metav1.StatusReason("NonZeroExitCode")
	causeExitCode         = metav1.CauseType("ExitCode")
)

// errGone means that the client disconnected, or must not be served any longer.
var errGone = errors.New("connection ended")

// An execution connects a command with its client. One goroutine reads from the client; another one, that of the request,
// writes to it.
type execution struct {
	conn   *websocket.Conn
	opts   *corev1.PodExecOptions
	stdin  *container.Input // nil: not wanted
	shared bool             // stdin outlives the client
	output *container.Output
	gone   chan struct{} // closed when nothing more is read from the client
	over   chan struct{} // closed by end
	end    func()        // the command reads no more; may be called more than once
}

// newExecution returns an execution, and begins to read from its client.
func newExecution(conn *websocket.Conn, opts *corev1.PodExecOptions, stdin *container.Input, shared bool) *execution {
	x := &execution{
		conn: conn, opts: opts, stdin: stdin, shared: shared, output: container.NewOutput(0), gone: make(chan struct{}), over: make(chan struct{}),
	}
	x.end = sync.OnceFunc(func() { close(x.over) })
	x.output.SetWindow(windowBytes)
	conn.SetReadLimit(messageBytesMax)
	go x.receive()
	return x
}

// close ends the connection and the goroutine that reads from it.
func (x *execution) close() {
	x.end()
	_ = x.conn.Close() // it may be closed already
	<-x.gone
}

// receive passes on what the client sends until it disconnects.
//
// Upstream: k8s.io/streaming/pkg/httpstream/wsstream Conn.handle (v1.36).
func (x *execution) receive() {
	defer close(x.gone)
	for {
		_, message, err := x.conn.ReadMessage()
		if err != nil {
			return
		}
		if len(message) == 0 || x.stdin == nil {
			continue
		}
		switch {
		case message[0] == stdinChannel:
			_, _ = x.stdin.Write(message[1:]) // it may be closed: what follows the end is lost
			x.waitForSpace()
		case message[0] == closeSignal && x.conn.Subprotocol() == protocolV5:
			if len(message) == 2 && message[1] == stdinChannel && !x.shared {
				_ = x.stdin.Close() // it returns no error
			}
		}
	}
}

// waitForSpace waits until the command has read enough of its input, or has ended.
func (x *execution) waitForSpace() {
	for taken := x.stdin.Full(windowBytes); taken != nil; taken = x.stdin.Full(windowBytes) {
		select {
		case <-taken:
		case <-x.over:
			return
		}
	}
}

// execute starts a command, sends what it writes, and at last its result. It ends the command if the client disconnects or
// one of the channels is closed.
func (x *execution) execute(start func(container.Streams) (*container.Execution, error), ends ...<-chan struct{}) {
	if x.greet() != nil {
		return
	}
	command, err := start(container.Streams{Stdin: x.stdin, Output: x.output, TTY: x.opts.TTY})
	if err != nil {
		x.finish(&apierrors.NewInternalError(fmt.Errorf("error executing command in container: %w", err)).ErrStatus)
		return
	}
	defer x.endWith(ends)()
	if x.copyOutput(command) != nil {
		command.Kill()
		return
	}
	x.finish(resultOf(command.Code()))
}

// greet tells the client by an empty message that it is connected. The error is errGone.
func (x *execution) greet() error {
	channel := byte(errorChannel)
	switch {
	case x.opts.Stdout:
		channel = stdoutChannel
	case x.opts.Stderr:
		channel = stderrChannel
	}
	return x.send(channel, nil)
}

// endWith ends the connection when one of the channels is closed, until the function that it returns is called.
func (x *execution) endWith(ends []<-chan struct{}) (stop func()) {
	stopped := make(chan struct{})
	for _, end := range ends {
		go func() {
			select {
			case <-end:
				_ = x.conn.Close() // so that writes end too
			case <-stopped:
			}
		}()
	}
	return func() { close(stopped) }
}

// copyOutput sends what a command writes until it has ended. The error is errGone.
func (x *execution) copyOutput(command *container.Execution) error {
	for position, done := 0, false; ; {
		entries, next, _, changed := x.output.Read(position)
		position = next
		for _, e := range entries {
			if err := x.sendEntry(e); err != nil {
				return err
			}
		}
		x.output.Discard(next)
		if done {
			return nil // a command that has ended writes nothing
		}
		select {
		case <-changed:
		case <-command.Done:
			done = true
		case <-x.gone:
			return errGone
		}
	}
}

// sendEntry sends what a command has written, if the client wants that stream.
func (x *execution) sendEntry(e container.Entry) error {
	switch {
	case e.Stream == container.Stdout && x.opts.Stdout:
		return x.send(stdoutChannel, e.Text)
	case e.Stream == container.Stderr && x.opts.Stderr:
		return x.send(stderrChannel, e.Text)
	}
	return nil
}

// send sends a message. The error is errGone.
func (x *execution) send(channel byte, data []byte) error {
	_ = x.conn.SetWriteDeadline(deadlineAfter(stallMax)) // it returns no error
	if err := x.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...)); err != nil {
		return errGone
	}
	return nil
}

// finish sends the result of a command, and waits until the client has closed its side: before, the client might lose the
// result.
func (x *execution) finish(result *metav1.Status) {
	x.end()
	if x.send(errorChannel, []byte(encode(result))) != nil {
		return
	}
	normal := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if x.conn.WriteControl(websocket.CloseMessage, normal, deadlineAfter(stallMax)) != nil {
		return
	}
	_ = x.conn.SetReadDeadline(deadlineAfter(closeMax)) // it may be closed already
	<-x.gone
}

// resultOf returns the result of a command with an exit code.
//
// Upstream: k8s.io/apiserver/pkg/util/proxy codeExitToStatusError (v1.36).
func resultOf(code int32) *metav1.Status {
	if code == 0 {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: reasonNonZeroExitCode,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeExitCode, Message: strconv.Itoa(int(code))}}},
		Message: fmt.Sprintf("command terminated with non-zero exit code: command terminated with exit code %d", code),
	}
}

// deadlineAfter returns the time after d. A connection has the machine's clock, not the simulated one.
func deadlineAfter(d time.Duration) time.Time {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	deadline, _ := ctx.Deadline()
	return deadline
}
