package endpoint

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/volsim/volsim/sim"
)

// An Endpoint receives requests. Its methods may be called concurrently.
type Endpoint struct {
	mu      sync.Mutex
	handler http.Handler // guarded by mu; nil: inbox is served
	inbox   *inbox       // guarded by mu
}

// An inbox has the requests that a process has not begun.
type inbox struct {
	process *sim.Process
	mu      sync.Mutex
	waiting []*Exchange // guarded by mu
}

// An Exchange is a request and, later, its response.
type Exchange struct {
	request  *http.Request
	response *http.Response // set before answered
	answered atomic.Bool
	wake     func()
}

// New returns an endpoint whose handler answers at once. nil: requests are not answered before Serve.
func New(handler http.Handler) *Endpoint { return &Endpoint{handler: handler} }

// Serve makes tasks of a process answer the requests that are sent from now on. Earlier ones that no task
// has begun are never answered.
func (e *Endpoint) Serve(p *sim.Process, handler http.Handler) {
	in := &inbox{process: p}
	p.Worker("requests", in.hasRequests, func(context.Context) {
		x := in.next()
		p.Spawn(x.request.Method+" "+x.request.URL.Path, func(ctx context.Context) {
			x.request = x.request.WithContext(ctx)
			x.answer(handler)
		})
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handler, e.inbox = nil, in
}

// Send sends a request. wake, if not nil, is called once it is answered.
func (e *Endpoint) Send(req *http.Request, wake func()) *Exchange {
	x := &Exchange{request: req, wake: wake}
	e.mu.Lock()
	handler, in := e.handler, e.inbox
	e.mu.Unlock()
	switch {
	case handler != nil:
		x.answer(handler)
	case in != nil:
		in.add(x)
	}
	return x
}

// Done reports whether the request is answered.
func (x *Exchange) Done() bool { return x.answered.Load() }

// Response returns the response; nil before Done.
func (x *Exchange) Response() *http.Response {
	if !x.Done() {
		return nil
	}
	return x.response
}

func (x *Exchange) answer(handler http.Handler) {
	x.response = Respond(handler, x.request)
	x.answered.Store(true)
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

func (in *inbox) add(x *Exchange) {
	in.mu.Lock()
	in.waiting = append(in.waiting, x)
	in.mu.Unlock()
	in.process.Wake()
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
	in.waiting = in.waiting[1:]
	return x
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
