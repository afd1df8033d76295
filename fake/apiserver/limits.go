package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/internal/rbac"
)

// Limits of what clients may use. Those of a connection's time and of its headers are in listen.go, and those
// of a patch in package fake.
//
// Upstream: k8s.io/apiserver/pkg/server NewConfig.
const (
	bodyBytesMax = 3 << 20
	readingMax   = 400 // requests in flight
	mutatingMax  = 200

	// watchesMax and watchesPerUserMax are the limits of open watches. Differs: the real server has none.
	watchesMax        = 10_000
	watchesPerUserMax = 2_500

	// selectorBytesMax is the limit of a selector's length. Each object of a list is compared with each
	// requirement: 16,000 of them and 10,000 objects take two seconds. Differs: the real server has none but that
	// of a URL's length, 1 MiB.
	selectorBytesMax = 64 << 10

	// stallMax is how long a client may take to read an answer, or not read the events of a watch.
	stallMax = time.Minute
)

// tooManyText is the message of 429 Too Many Requests.
const tooManyText = "Too many requests, please try again later."

// errTooMany is the error of a watch beyond a limit.
func errTooMany() error { return apierrors.NewTooManyRequests(tooManyText, 1) }

// tooManyRequests answers a request beyond the limit of those in flight.
//
// Upstream: k8s.io/apiserver/pkg/server/filters tooManyRequests.
func tooManyRequests() answer {
	a := newAnswer(http.StatusTooManyRequests, "text/plain; charset=utf-8", []byte(tooManyText+"\n"))
	a.header.Set("Retry-After", "1")
	a.header.Set("X-Content-Type-Options", "nosniff")
	return a
}

// slots is a counting semaphore that does not block.
type slots struct {
	max int64
	n   atomic.Int64
}

// acquire takes a slot. release returns it and may be called more than once. ok is false if none is free.
func (s *slots) acquire() (release func(), ok bool) {
	if s.n.Add(1) > s.max {
		s.n.Add(-1)
		return nil, false
	}
	return sync.OnceFunc(func() { s.n.Add(-1) }), true
}

// userSlots are slots for each user.
type userSlots struct {
	max int
	mu  sync.Mutex
	n   map[string]int // guarded by mu: slots in use, by user
}

// acquire takes a slot of a user, like slots.acquire.
func (s *userSlots) acquire(user string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[user] >= s.max {
		return nil, false
	}
	if s.n == nil {
		s.n = map[string]int{}
	}
	s.n[user]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.n[user]--; s.n[user] == 0 {
			delete(s.n, user)
		}
	}), true
}

// acquireWatch takes the slots of a watch. The error is 429 Too Many Requests.
func (r *request) acquireWatch() (release func(), err error) {
	one, ok := r.h.watches.acquire()
	if !ok {
		return nil, errTooMany()
	}
	if !r.limited {
		return one, nil
	}
	own, ok := r.h.byUser.acquire(r.client().User().Username)
	if !ok {
		one()
		return nil, errTooMany()
	}
	return func() { own(); one() }, nil
}

// enter counts the request as one in flight until r.done, and reports whether there may be one more. Superusers
// may always have one more, and long-running requests are not counted.
//
// Upstream: k8s.io/apiserver/pkg/server/filters WithMaxInFlightLimit.
//
// Differs: the real server queues requests by priority levels first, whose sum is the same.
func (r *request) enter(parts []string) bool {
	if !r.limited || isLongRunning(r.Request) {
		return true
	}
	of := &r.h.writing
	if slices.Contains([]string{"get", "list", "watch"}, r.requestVerb(parts)) {
		of = &r.h.reading
	}
	release, ok := of.acquire()
	if ok {
		r.done = release
		return true
	}
	user := r.client().User()
	return rbac.IsSuperuser(&user)
}

// requestVerb returns the verb of a request for a resource or a path.
func (r *request) requestVerb(parts []string) string {
	if !namesResource(parts) {
		return strings.ToLower(r.Method)
	}
	t, _ := parsePath(parts)
	return r.apiVerb(t)
}

// checkSelector returns an error if a selector is too long.
func checkSelector(kind, selector string) error {
	if len(selector) <= selectorBytesMax {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum of bytes in a %s selector is %d, got %d",
		kind, selectorBytesMax, len(selector)))
}

// readBody reads the request's body up to the maximum length.
func (r *request) readBody() ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, r.h.bodyMax+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, context.DeadlineExceeded
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	case int64(len(data)) > r.h.bodyMax:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", r.h.bodyMax))
	}
	return data, nil
}

// limitWrites lets writes to a connection take stallMax from now on. A connection has the machine's clock, not
// the simulated one.
func limitWrites(to *http.ResponseController) {
	ctx, cancel := context.WithTimeout(context.Background(), stallMax)
	defer cancel()
	deadline, _ := ctx.Deadline()
	_ = to.SetWriteDeadline(deadline) // not every writer is a connection
}

// flushWithin sends what was written, within stallMax. After that the connection may be idle: over HTTP/2 a
// deadline ends a stream even if nothing is written.
func flushWithin(to *http.ResponseController) error {
	limitWrites(to)
	err := to.Flush()
	_ = to.SetWriteDeadline(time.Time{})
	return err
}
