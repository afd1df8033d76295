package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/volsim/volsim/sim"
)

// ErrRefused is the error of a request that nothing receives, as the kernel has it.
var ErrRefused = errors.New("connect: connection refused")

// An Endpoint receives requests. Its methods may be called concurrently.
type Endpoint struct {
	mu      sync.Mutex
	handler http.Handler // guarded by mu; nil: inbox is served
	inbox   *inbox       // guarded by mu; nil: nothing serves
}

// An inbox has the requests that a process has not answered.
type inbox struct {
	process *sim.Process
	mu      sync.Mutex
	waiting []*Exchange // guarded by mu; not begun
	begun   []*Exchange // guarded by mu
	closed  bool        // guarded by mu: the process has crashed
}

// An Exchange is a request and, later, its response.
type Exchange struct {
	request  *http.Request
	response *http.Response // set before done
	err      error          // set before done; why there is no response
	done     atomic.Bool
	wake     func()
}

// New returns an endpoint whose handler answers at once. nil: requests are refused before Serve.
func New(handler http.Handler) *Endpoint { return &Endpoint{handler: handler} }

// Serve makes tasks of a process answer the requests that are sent from now on. When the process crashes,
// those that it has not answered are cut off, and later ones are refused until the next Serve.
func (e *Endpoint) Serve(p *sim.Process, handler http.Handler) {
	in := &inbox{process: p}
	p.Worker("requests", in.hasRequests, func(context.Context) {
		x := in.next()
		p.Spawn(x.request.Method+" "+x.request.URL.Path, func(ctx context.Context) {
			x.request = x.request.WithContext(ctx)
			resp := Respond(handler, x.request)
			if ctx.Err() == nil { // a process that has crashed does not answer
				in.remove(x)
				x.end(resp, nil)
			}
		})
	})
	p.OnCrash(in.close)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handler, e.inbox = nil, in
}

// Send sends a request. wake, if not nil, is called once it is done.
func (e *Endpoint) Send(req *http.Request, wake func()) *Exchange {
	x := &Exchange{request: req, wake: wake}
	e.mu.Lock()
	handler, in := e.handler, e.inbox
	e.mu.Unlock()
	switch {
	case handler != nil:
		x.end(Respond(handler, req), nil)
	case in == nil || !in.add(x):
		x.end(nil, ErrRefused)
	}
	return x
}

// Done reports whether the request is answered, refused or cut off.
func (x *Exchange) Done() bool { return x.done.Load() }

// Response returns the response. The error is ErrRefused, or io.EOF for a request that was cut off. Both are
// nil before Done.
func (x *Exchange) Response() (*http.Response, error) {
	if !x.Done() {
		return nil, nil
	}
	return x.response, x.err
}

func (x *Exchange) end(resp *http.Response, err error) {
	x.response, x.err = resp, err
	x.done.Store(true)
	if x.wake != nil {
		x.wake()
	}
}

// Respond returns the response of a handler to a request.
func Respond(handler http.Handler, req *http.Request) *http.Response {
	w := &responseBuffer{header: http.Header{}}
	handler.ServeHTTP(w, req)
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: strconv.Itoa(w.code) + " " + http.StatusText(w.code), StatusCode: w.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Request: req,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}
}

// add adds a request, and reports whether the process receives it.
func (in *inbox) add(x *Exchange) bool {
	in.mu.Lock()
	received := !in.closed
	if received {
		in.waiting = append(in.waiting, x)
	}
	in.mu.Unlock()
	in.process.Wake()
	return received
}

func (in *inbox) hasRequests() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.waiting) > 0
}

func (in *inbox) next() *Exchange {
	in.mu.Lock()
	defer in.mu.Unlock()
	x := in.waiting[0]
	in.waiting, in.begun = in.waiting[1:], append(in.begun, x)
	return x
}

// remove removes a request that is answered.
func (in *inbox) remove(x *Exchange) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.begun = slices.DeleteFunc(in.begun, func(each *Exchange) bool { return each == x })
}

// close cuts off the requests that are not answered, and refuses others.
func (in *inbox) close() {
	in.mu.Lock()
	all := slices.Concat(in.begun, in.waiting)
	in.begun, in.waiting, in.closed = nil, nil, true
	in.mu.Unlock()
	for _, x := range all {
		x.end(nil, io.EOF)
	}
}

// responseBuffer is a response in memory.
type responseBuffer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the header that will be sent.
func (w *responseBuffer) Header() http.Header { return w.header }

// Write appends to the body.
func (w *responseBuffer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// WriteHeader sets the status code, unless it is set.
func (w *responseBuffer) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}
