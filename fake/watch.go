package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/sim"
)

// A Cursor is a watch: a position in the log of a resource, and a selector. It copies nothing, and
// has no cost while it is idle.
type Cursor struct {
	server   *Server
	table    *table
	selector selector
	position int64
	defined  int      // number of changes of the definition before the watch
	seen     int64    // revision that the watch has reached
	first    []Object // initial events, sent as Added before the log; read-only
	bookmark int64    // the revision of the bookmark after the initial events; 0: none

	bookmarks bool      // the watcher accepts progress bookmarks
	sent      int64     // the newest revision that was sent
	due       time.Time // when the next bookmark is due
	ends      time.Time // when the watch ends; zero: unknown

	gate    sim.ContextCaller // passed by events before they are sent; nil: none
	initial int               // number of initial events sent; see PassGate
}

const (
	bookmarkPeriod = time.Minute     // between bookmarks
	bookmarkEarly  = 2 * time.Second // one more this long before the end of a watch
)

// newCursor starts a watch.
func (s *Server) newCursor(k *kind, namespace string, opts *metav1.ListOptions) (*Cursor, error) {
	if err := validateList(opts, true); err != nil {
		return nil, err
	}
	sel, err := newSelector(k, namespace, opts)
	if err != nil {
		return nil, err
	}
	revision, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, internalError(err.Error())
	}
	c := &Cursor{server: s, table: s.tableOf(k), selector: sel}
	c.defined = s.definitions(c.table)
	c.schedule(opts)
	initial := revision == 0
	if opts.SendInitialEvents != nil {
		initial = *opts.SendInitialEvents
	}
	switch {
	case initial:
		return c, c.begin(opts, revision)
	case revision == 0: // the newest, without the initial events
		revision = s.Revision()
	}
	return c, c.resume(revision)
}

// begin takes a snapshot for the initial events.
func (c *Cursor) begin(opts *metav1.ListOptions, atLeast int64) error {
	s := c.server
	s.mu.Lock()
	objects, revision := c.table.objects.Copy(), s.revision
	c.position = c.table.log.end.Load()
	s.mu.Unlock()
	if atLeast > revision {
		return tooLarge(atLeast, revision)
	}
	if c.selector.converts() {
		var all ObjectList
		if _, err := c.selector.page(objects, "", 0, &all); err != nil {
			return err
		}
		c.first = all.Objects
	} else {
		c.selector.scan(objects, "", func(_ string, obj Object) bool {
			c.first = append(c.first, obj)
			return true
		})
	}
	c.seen, c.sent = revision, revision
	if opts.AllowWatchBookmarks {
		c.bookmark = revision
	}
	return nil
}

// resume moves the cursor to a revision.
func (c *Cursor) resume(revision int64) error {
	s := c.server
	s.mu.RLock()
	defer s.mu.RUnlock()
	position, ok := c.table.log.position(revision)
	if !ok {
		return tooOld(revision, c.table.log.compacted)
	}
	c.position, c.seen, c.sent = position, revision, revision
	if revision > s.revision {
		c.selector.after = revision
	}
	return nil
}

// Next returns the next selected event. The bool is false if there is none yet. The objects are
// read-only. The error is 410 Expired, or io.EOF when the definition of a custom resource has
// changed: the watch ends, and may be resumed from its last revision. It is 500 if a webhook cannot
// convert an object. The watch then ends on the wire; here it stays before the event.
func (c *Cursor) Next() (watch.Event, bool, error) {
	e, ok, err := c.next()
	if ok && c.selector.kind.fromStored != nil && !c.selector.converts() && e.Type != watch.Bookmark {
		e.Object, err = c.selector.kind.fromStored(e.Object.(Object))
	}
	return e, ok, err
}

// BookmarkDue returns the time at which the next bookmark is due without further events. The bool
// is false if the watcher does not accept bookmarks. A caller that waits for Changed must call Next
// again at that time: the cursor has no timer.
func (c *Cursor) BookmarkDue() (time.Time, bool) { return c.due, c.bookmarks }

// schedule sets the times at which bookmarks are due.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher cacheWatcher.nextBookmarkTime.
func (c *Cursor) schedule(opts *metav1.ListOptions) {
	c.bookmarks = opts.AllowWatchBookmarks
	if !c.bookmarks {
		return
	}
	now := c.server.now()
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		c.ends = now.Add(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}
	c.reschedule(now)
}

func (c *Cursor) reschedule(now time.Time) {
	c.due = now.Add(bookmarkPeriod)
	if early := c.ends.Add(-bookmarkEarly); !c.ends.IsZero() && early.After(now) && c.due.After(early) {
		c.due = early
	}
}

// progress returns a bookmark if one is due and the revision is new.
func (c *Cursor) progress() (watch.Event, bool) {
	if !c.bookmarks {
		return watch.Event{}, false
	}
	now := c.server.now()
	if now.Before(c.due) {
		return watch.Event{}, false
	}
	revision, ok := c.server.caughtUp(c.table, c.position)
	if !ok {
		return watch.Event{}, false // still due, after pending events
	}
	c.reschedule(now)
	if revision <= c.sent {
		return watch.Event{}, false
	}
	c.seen, c.sent = revision, revision
	obj := c.selector.kind.empty()
	obj.SetResourceVersion(formatRevision(revision))
	return watch.Event{Type: watch.Bookmark, Object: obj}, true
}

// Changed returns a channel that is closed when Next may return more.
func (c *Cursor) Changed() <-chan struct{} {
	changed := c.server.wait(c.table, c.position)
	if !c.redefined() {
		return changed
	}
	done := make(chan struct{})
	close(done)
	return done
}

// definitions returns how often the definition of a resource has changed.
func (s *Server) definitions(t *table) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(t.definedFrom)
}

// redefined reports whether the watch has read all events before a change of the definition.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver crdHandler.updateCustomResourceDefinition,
// which tears down the storage.
func (c *Cursor) redefined() bool {
	if c.selector.kind.custom == nil {
		return false
	}
	c.server.mu.RLock()
	defer c.server.mu.RUnlock()
	from := c.table.definedFrom
	return c.defined < len(from) && c.position >= from[c.defined]
}

func (c *Cursor) next() (watch.Event, bool, error) {
	if len(c.first) > 0 {
		obj := c.first[0]
		c.first = c.first[1:]
		return watch.Event{Type: watch.Added, Object: obj}, true, nil
	}
	if c.bookmark > 0 {
		obj := c.selector.kind.empty()
		obj.SetResourceVersion(formatRevision(c.bookmark))
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: strconv.FormatBool(true)})
		c.bookmark = 0
		return watch.Event{Type: watch.Bookmark, Object: obj}, true, nil
	}
	for {
		if c.redefined() {
			return watch.Event{}, false, io.EOF
		}
		e, found := c.server.read(c.table, c.position)
		switch found {
		case readNothing:
			out, ok := c.progress()
			return out, ok, nil
		case readTooOld:
			return watch.Event{}, false, tooOld(c.seen, c.server.compacted(c.table))
		}
		out, ok, err := c.selector.event(e)
		if err != nil {
			return watch.Event{}, false, err
		}
		c.position++
		c.seen = e.revision
		if ok {
			c.sent = e.revision
			return out, true, nil
		}
	}
}

// event returns an event of the log as the selector sees it. An object that becomes selected is
// added. One that ceases to be selected is deleted, with its last selected state.
func (s *selector) event(e *event) (watch.Event, bool, error) {
	if e.revision <= s.after {
		return watch.Event{}, false, nil
	}
	if s.converts() {
		return s.convertedEvent(e)
	}
	now, before := e.kind != watch.Deleted && s.matches(e.object), e.previous != nil && s.matches(e.previous)
	switch {
	case now && before:
		return watch.Event{Type: watch.Modified, Object: e.object}, true, nil
	case now:
		return watch.Event{Type: watch.Added, Object: e.object}, true, nil
	case !before:
		return watch.Event{}, false, nil
	case e.kind == watch.Deleted:
		return watch.Event{Type: watch.Deleted, Object: e.object}, true, nil
	}
	left := s.kind.shallow(e.previous)
	left.SetResourceVersion(formatRevision(e.revision))
	return watch.Event{Type: watch.Deleted, Object: left}, true, nil
}

func tooOld(requested, compacted int64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", requested, compacted))
}

// A pump is a cursor as a watch.Interface. Its goroutine ends with Stop or the context of the
// watch.
//
// Differs: timeoutSeconds is measured on the wall clock, whatever the host's. Bookmarks that are
// due come with the next write to the resource: there is no timer.
type pump struct {
	events chan watch.Event
	cancel context.CancelFunc
	show   func(Object) (runtime.Object, error) // the watcher's copy of an object
}

var _ watch.Interface = (*pump)(nil)

func newPump(ctx context.Context, c *Cursor, failed error, timeout *int64,
	show func(Object) (runtime.Object, error),
) *pump {
	p := &pump{events: make(chan watch.Event), show: show}
	if timeout != nil && *timeout > 0 {
		ctx, p.cancel = context.WithTimeout(ctx, time.Duration(*timeout)*time.Second)
	} else {
		ctx, p.cancel = context.WithCancel(ctx)
	}
	go func() {
		defer close(p.events)
		defer p.cancel()
		if failed == nil {
			failed = p.run(ctx, c)
		}
		var status apierrors.APIStatus
		if errors.As(failed, &status) {
			st := status.Status()
			p.send(ctx, watch.Event{Type: watch.Error, Object: &st})
		}
	}()
	return p
}

// run sends events until the context ends, which is no error, or the cursor fails.
func (p *pump) run(ctx context.Context, c *Cursor) error {
	for {
		e, ok, err := c.Next()
		if err != nil {
			return err
		}
		if ok {
			if !c.PassGate(ctx, e) {
				return nil
			}
			if e.Object, err = p.show(e.Object.(Object)); err != nil {
				return internalError(err.Error())
			}
			if !p.send(ctx, e) {
				return nil
			}
			continue
		}
		select {
		case <-c.Changed():
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *pump) send(ctx context.Context, e watch.Event) bool {
	select {
	case p.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stop ends the watch.
func (p *pump) Stop() { p.cancel() }

// ResultChan returns the channel of events. It is closed when the watch has ended.
func (p *pump) ResultChan() <-chan watch.Event { return p.events }
