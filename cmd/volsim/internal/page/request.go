package page

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// requestBytesMax is the maximum body size of an API request, slightly more than the API itself
// accepts.
const requestBytesMax = 4 << 20

// A request is an API request that may write. It is kept for replays.
type request struct {
	method, url string
	header      http.Header
	body        []byte
}

// ServeHTTP handles an API request. Its effect is immediate. A writing request is recorded as an
// operation; a reading one is not.
func (d *Stepped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	c := &caller{owner: d, world: in, agent: r.UserAgent()}
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestBytesMax))
		if err != nil {
			http.Error(w, fmt.Sprintf("read request body: %v", err), http.StatusRequestEntityTooLarge)
			return
		}
		c.request = &request{r.Method, r.URL.String(), r.Header.Clone(), body}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	in.api.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, c)))
}

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

// replay executes the request in another world and discards the response. The Stepped world must be
// locked.
func (q *request) replay(in *world) {
	c := &caller{world: in, agent: q.header.Get("User-Agent"), request: q}
	r, err := http.NewRequestWithContext(context.WithValue(in.ctx, callerKey{}, c), q.method,
		q.url, bytes.NewReader(q.body))
	if err != nil {
		return // it was invalid the first time too
	}
	r.Header = q.header.Clone()
	in.api.ServeHTTP(&discardResponse{header: http.Header{}}, r)
}

// A discardResponse is an http.ResponseWriter that discards the response.
type discardResponse struct{ header http.Header }

func (n *discardResponse) Header() http.Header         { return n.header }
func (n *discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (n *discardResponse) WriteHeader(int)             {}

// callerKey is the context key of a request's caller.
type callerKey struct{}

func callerOf(r *http.Request) sim.Caller { return r.Context().Value(callerKey{}).(*caller) }

// A caller is the sim.Caller of one request. It acts between steps.
type caller struct {
	owner    *Stepped // nil: already locked
	world    *world
	agent    string
	request  *request // nil: read-only request
	recorded bool
}

// Now returns the world's time.
func (c *caller) Now() time.Time { return c.world.session.Cluster().Host().Now() }

// Call executes an action at once, and records its request if it writes.
func (c *caller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if c.owner != nil {
		c.owner.mu.Lock()
		defer c.owner.mu.Unlock()
		if c.owner.world != c.world {
			return trace.Outcome{Err: apierrors.NewServiceUnavailable("the world was reset to an earlier state: retry")}
		}
	}
	if c.request == nil || readVerbs[action.Verb] {
		return effect()
	}
	out := c.world.session.Cluster().Host().ExternalCaller().Call(action, effect)
	if !c.recorded {
		c.recorded = true
		c.world.requests[len(c.world.session.Ops())] = c.request
		_ = c.world.session.Do(comment(c.agent, action)) // a comment is always valid
	}
	if c.owner != nil {
		c.owner.notify()
	}
	return out
}

// readVerbs are the verbs that change nothing.
var readVerbs = map[string]bool{"get": true, "list": true, "watch": true}

// comment returns the comment line that represents a request in a list of operations.
func comment(agent string, action trace.Action) string {
	agent, _, _ = strings.Cut(agent, "/")
	agent = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, agent)
	return fmt.Sprintf("# %s: %s %s", cmp.Or(agent, "a client"), action.Verb, trace.ObjectName(action.Object))
}
