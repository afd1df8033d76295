package kubeletserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/kubelet/container"
)

const (
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
	conn   connection
	opts   *corev1.PodExecOptions
	stdin  *container.Input // nil: not wanted
	shared bool             // stdin outlives the client
	output *container.Output
	gone   chan struct{} // closed when nothing more is read from the client
	over   chan struct{} // closed by end
	end    func()        // the command reads no more; may be called more than once
}

// newExecution returns an execution, and begins to read from its client.
func newExecution(conn connection, opts *corev1.PodExecOptions, stdin *container.Input, shared bool) *execution {
	x := &execution{
		conn: conn, opts: opts, stdin: stdin, shared: shared, output: container.NewOutput(0), gone: make(chan struct{}), over: make(chan struct{}),
	}
	x.end = sync.OnceFunc(func() { close(x.over) })
	x.output.SetWindow(windowBytes)
	go func() {
		defer close(x.gone)
		conn.receive(x)
	}()
	return x
}

// close ends the connection and the goroutines that read from it.
func (x *execution) close() {
	x.end()
	x.conn.disconnect()
	<-x.gone
	x.conn.wait()
}

// input passes a part of the client's input to the command, and waits until the command has read enough. What follows the
// end of the input or of the command is lost.
func (x *execution) input(data []byte) {
	select {
	case <-x.over:
		return
	default:
	}
	if x.stdin == nil {
		return
	}
	_, _ = x.stdin.Write(data) // it may be closed
	x.waitForSpace()
}

// endInput ends the input of a command, unless that outlives the client.
func (x *execution) endInput() {
	if x.stdin != nil && !x.shared {
		_ = x.stdin.Close() // it returns no error
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
	if x.conn.greet(x.opts) != nil {
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

// endWith ends the connection when one of the channels is closed, until the function that it returns is called.
func (x *execution) endWith(ends []<-chan struct{}) (stop func()) {
	stopped := make(chan struct{})
	for _, end := range ends {
		go func() {
			select {
			case <-end:
				x.conn.disconnect()
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
		return x.conn.send(stdoutChannel, e.Text)
	case e.Stream == container.Stderr && x.opts.Stderr:
		return x.conn.send(stderrChannel, e.Text)
	}
	return nil
}

// finish sends the result of a command.
func (x *execution) finish(result *metav1.Status) {
	x.end()
	x.conn.finish(result, x.gone)
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
