package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// The largest number of attempts, and the longest pause between two, if the server asks to retry
// later.
//
// Upstream: client-go rest.Request maxRetries; it waits as long as the server says.
const (
	attemptsMax   = 10
	retryAfterMax = time.Minute
)

// transport makes each request one Call of a process. The answer is complete when the Call returns,
// so the task reads it without leaving the process.
type transport struct {
	next    http.RoundTripper
	process *sim.Process
	base    string        // path of the server's URL
	timeout time.Duration // of one request
	memory  *objectMemory
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip makes a request. If the server asks to retry later, it waits here, outside of the
// process; client-go would wait inside. Streaming requests pass unchanged: they are not for tasks.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if isStreaming(req) {
		return t.next.RoundTrip(req)
	}
	sent := sentObject(req)
	action := t.action(req, sent)
	for tries := 1; ; tries++ {
		resp, err := t.call(req, action, sent)
		if err != nil {
			return nil, nonRetriable(err)
		}
		pause, asked := retryAfter(resp)
		if !asked || tries == attemptsMax || (req.Body != nil && req.GetBody == nil) {
			resp.Header.Del("Retry-After") // client-go would wait inside of the process
			return resp, nil
		}
		t.process.Sleep(pause)
		if req, err = cloneForRetry(req); err != nil {
			return nil, err
		}
	}
}

// cloneForRetry returns a copy of a request with a new body.
func cloneForRetry(req *http.Request) (*http.Request, error) {
	next := req.Clone(req.Context())
	if req.GetBody == nil {
		return next, nil
	}
	var err error
	next.Body, err = req.GetBody()
	return next, err
}

// retryAfter returns the pause that the server asks for, and whether it does.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0, false
	}
	return min(time.Duration(seconds)*time.Second, retryAfterMax), true
}

// call makes the request once.
func (t *transport) call(req *http.Request, action trace.Action, sent runtime.Object) (resp *http.Response, err error) {
	t.process.Call(action, func() trace.Outcome {
		var body []byte
		before := t.memory.before(action, sent) // first: the cache may see the write before its answer arrives
		resp, body, err = t.exchange(req)
		if err != nil {
			return trace.Outcome{Err: err}
		}
		if err := statusError(action, resp.StatusCode, body); err != nil {
			return trace.Outcome{Err: err}
		}
		return t.memory.outcomeOf(action, before, decode(body))
	})
	return resp, err
}

// exchange sends the request and reads the whole answer.
func (t *transport) exchange(req *http.Request) (*http.Response, []byte, error) {
	if err := req.Context().Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := t.withTimeout(req)
	defer cancel()
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, nil, timeoutCause(ctx, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, nil, timeoutCause(ctx, err)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, body, nil
}

// errTimeout is the cause of a request's timeout.
var errTimeout = errors.New("API server did not answer in time")

// withTimeout returns a context for a request. It ends after the timeout, or with the request's
// own. A write in flight when the host is closed gets some time to finish, so that the next leader
// finds it done.
func (t *transport) withTimeout(req *http.Request) (context.Context, context.CancelFunc) {
	parent := req.Context()
	if req.Method == http.MethodGet {
		return context.WithTimeoutCause(parent, t.timeout, errTimeout)
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(parent), t.timeout, errTimeout)
	stop := context.AfterFunc(parent, func() {
		if errors.Is(parent.Err(), context.Canceled) {
			last, release := context.WithTimeout(ctx, shutdownGrace)
			defer release()
			<-last.Done()
		}
		cancel()
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// timeoutCause returns the cause of ctx's end, or err if ctx has not ended.
func timeoutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
		return cause
	}
	return err
}

// connectionError is the error of a broken connection.
type connectionError string

func (e connectionError) Error() string { return string(e) }

// nonRetriable replaces the errors that client-go would retry, since it would wait for a second
// inside of the process. The caller retries with the back-off of its queue.
func nonRetriable(err error) error {
	switch {
	case utilnet.IsConnectionReset(err), utilnet.IsHTTP2ConnectionLost(err):
		return connectionError("connection to the API server lost")
	case utilnet.IsProbableEOF(err):
		return connectionError("connection closed by the API server")
	default:
		return err
	}
}
