package page

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/internal/apirequest"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// requestBytesMax is the maximum body size of an API request, slightly more than the API itself
// accepts.
const requestBytesMax = 4 << 20

// ServeHTTP handles an API request. Its effect is immediate. A writing request is recorded as an
// operation; a reading one is not.
func (d *Stepped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		d.write(w, r)
		return
	}
	d.mu.Lock()
	in := d.world
	d.mu.Unlock()
	if in == nil {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	if isBeyondRevision(r, in) {
		writeExpired(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(in.ctx, cancel)()
	in.api.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, &reader{d, in})))
}

// ServeUnauthorized answers an API request that is not authenticated.
func (d *Stepped) ServeUnauthorized(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	in := d.world
	d.mu.Unlock()
	if in == nil {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	api := in.api.(interface {
		ServeUnauthorized(w http.ResponseWriter, r *http.Request)
	})
	api.ServeUnauthorized(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &reader{d, in})))
}

// write handles a request that may write. No operation or other request is executed meanwhile.
func (d *Stepped) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestBytesMax))
	if err != nil {
		http.Error(w, fmt.Sprintf("read request body: %v", err), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	reply := &bufferedResponse{header: http.Header{}, code: http.StatusOK}
	if !d.perform(reply, r, body) {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	maps.Copy(w.Header(), reply.header)
	w.WriteHeader(reply.code)
	_, _ = w.Write(reply.body.Bytes())
}

// perform executes a request and records it if it writes. It reports false if the world is closed.
func (d *Stepped) perform(w http.ResponseWriter, r *http.Request, body []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.world == nil {
		return false
	}
	s := d.world.session
	writer := &writer{Caller: s.Cluster().Host().ExternalCaller()}
	d.world.api.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, writer)))
	if writer.wrote {
		if err := s.Performed(r, body); err != nil {
			panic("page: " + err.Error()) // the server has understood the request
		}
		d.notify()
	}
	return true
}

// A bufferedResponse is an http.ResponseWriter that keeps the response, so that a slow client does
// not keep the world locked.
type bufferedResponse struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header         { return b.header }
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }
func (b *bufferedResponse) WriteHeader(code int)        { b.code = code }

// isBeyondRevision reports whether a request refers to a revision that this world has not reached,
// because the revision belonged to an undone world. The client must list again.
func isBeyondRevision(r *http.Request, in *world) bool {
	after, err := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	return r.Method == http.MethodGet && err == nil && after > in.session.Cluster().Server().Revision()
}

// writeExpired responds with 410 Gone.
func writeExpired(w http.ResponseWriter, _ *http.Request) {
	gone := apierrors.NewResourceExpired("the world was reset to an earlier state: list again").Status()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(gone.Code))
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":%q,"message":%q,"reason":%q,"code":%d}`+"\n",
		gone.Status, gone.Message, gone.Reason, gone.Code)
}

// callerKey is the context key of a request's caller.
type callerKey struct{}

func callerOf(r *http.Request) sim.Caller { return r.Context().Value(callerKey{}).(sim.Caller) }

// A reader is the sim.Caller of a request that reads. It leaves no trace.
type reader struct {
	owner *Stepped
	world *world
}

// Now returns the world's time.
func (c *reader) Now() time.Time { return c.world.session.Cluster().Host().Now() }

// Call executes an action between two operations.
func (c *reader) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	if c.owner.world != c.world {
		return trace.Outcome{Err: apierrors.NewServiceUnavailable("the world was reset to an earlier state: retry")}
	}
	return effect()
}

// A writer is the sim.Caller of a request that may write. Reads leave no trace.
type writer struct {
	sim.Caller
	wrote bool
}

// Call executes an action at once.
func (c *writer) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if !apirequest.Writes(action) {
		return effect()
	}
	c.wrote = true
	return c.Caller.Call(action, effect)
}
