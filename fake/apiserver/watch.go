package apiserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
)

// watchResource answers with a stream of events.
//
// Differs: without timeoutSeconds a watch does not end; the real server ends it after 30 to 60
// minutes.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers handleWatch, serveWatchHandler.
func (v *resourceRequest) watchResource() (answer, error) {
	opts, err := v.listOptions()
	if err != nil {
		return answer{}, err
	}
	if err := v.selectByName(&opts); err != nil {
		return answer{}, err
	}
	tableOpts, err := v.tableOptions()
	if err != nil && v.form.convert != nil && v.form.convert.Kind == "Table" {
		return answer{}, err
	}
	if v.form.media == mediaYAML {
		return answer{}, errAccept(mediaJSON+streamSuffix, mediaProtobuf+streamSuffix)
	}
	release, err := v.acquireWatch()
	if err != nil {
		return answer{}, err
	}
	taken := true
	defer func() {
		if taken {
			release()
		}
	}()
	cursor, err := v.client.Watch(v.Context(), opts)
	if err != nil && !isStreamError(err) {
		return answer{}, err
	}
	media := v.form.media
	if media == mediaProtobuf {
		media += streamSuffix
	}
	taken = false
	a := newAnswer(http.StatusOK, media, nil)
	a.stream = newStream(v.Context(), opts.TimeoutSeconds, release)
	a.stream.cursor, a.stream.failed, a.stream.now = cursor, err, v.h.server.Timestamp
	a.stream.encode = func(e watch.Event) ([]byte, error) { return v.frame(e, &tableOpts) }
	return a, nil
}

// selectByName restricts a watch of a path with a name to that object.
func (v *resourceRequest) selectByName(opts *metav1.ListOptions) error {
	if v.name == "" {
		return nil
	}
	one := fields.OneTermEqualSelector("metadata.name", v.name).String()
	if opts.FieldSelector != "" && opts.FieldSelector != one {
		return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	opts.FieldSelector = one
	return nil
}

// isStreamError reports whether a failure to start a watch is sent as its first event instead of as
// the answer's code.
func isStreamError(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsTimeout(err)
}

// frame encodes one event.
func (v *resourceRequest) frame(e watch.Event, opts *metav1.TableOptions) ([]byte, error) {
	obj, err := v.convertEvent(e, opts)
	if err != nil {
		return nil, err
	}
	body, err := v.h.codecs.encode(form{media: v.form.media}, obj)
	if err != nil {
		return nil, err
	}
	if v.form.media == mediaProtobuf {
		event := metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: body}}
		size := event.Size()
		out := make([]byte, 4+size)
		binary.BigEndian.PutUint32(out, uint32(size))
		_, err := event.MarshalToSizedBuffer(out[4:])
		return out, err
	}
	out := make([]byte, 0, len(body)+40)
	out = append(out, `{"type":"`...)
	out = append(out, e.Type...)
	out = append(out, `","object":`...)
	out = append(out, bytes.TrimSuffix(body, []byte("\n"))...)
	return append(out, "}\n"...), nil
}

// convertEvent returns an event's object, converted as negotiated. Only the first table has
// headers.
func (v *resourceRequest) convertEvent(e watch.Event, opts *metav1.TableOptions) (runtime.Object, error) {
	obj, ok := e.Object.(fake.Object)
	switch convert := v.form.convert; {
	case !ok:
		return e.Object, nil
	case convert == nil:
		return v.full(obj, v.client.GroupVersionKind())
	case convert.Kind != "Table":
		return partial(obj, convert.GroupVersion()), nil
	}
	out, err := v.table(v.client, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, []fake.Object{obj}, *opts)
	opts.NoHeaders = true
	return out, err
}

// stream is the answer to a watch. It encodes events when they are read. Close may be called at any
// time, the other methods by one goroutine.
type stream struct {
	cursor *fake.Cursor
	failed error // sent instead of events
	encode func(watch.Event) ([]byte, error)
	now    func() metav1.Time // the simulated clock

	ctx     context.Context //nolint:containedctx // it is the watch's life
	cancel  context.CancelFunc
	release func() // called at the end; may be called more than once
	pending []byte // encoded, not yet read
	ended   bool   // nothing follows pending
}

// newStream returns a stream that ends with ctx, after timeout seconds, or when it is closed. At
// the end it calls release.
func newStream(ctx context.Context, timeout *int64, release func()) *stream {
	s := &stream{release: release}
	if timeout != nil && *timeout > 0 {
		s.ctx, s.cancel = context.WithTimeout(ctx, seconds(*timeout))
	} else {
		s.ctx, s.cancel = context.WithCancel(ctx)
	}
	context.AfterFunc(s.ctx, release)
	return s
}

// seconds returns n seconds, capped at the longest duration.
func seconds(n int64) time.Duration {
	const most = 1<<63 - 1
	if n > most/int64(time.Second) {
		return most
	}
	return time.Duration(n) * time.Second
}

// encodeNext encodes the next event, if there is one already.
func (s *stream) encodeNext() (bool, error) {
	if s.ended || s.ctx.Err() != nil {
		return false, io.EOF
	}
	var e watch.Event
	failed, ok := s.failed, false
	if failed == nil {
		e, ok, failed = s.cursor.Next()
	}
	if errors.Is(failed, io.EOF) {
		s.ended = true
		return false, io.EOF
	}
	if failed != nil {
		s.ended = true
		e, ok = watch.Event{Type: watch.Error, Object: statusOf(failed)}, true
	}
	if !ok {
		return false, nil
	}
	if failed == nil && !s.cursor.PassGate(s.ctx, e) {
		return false, io.EOF
	}
	var err error
	s.pending, err = s.encode(e)
	return true, err
}

// wait waits until there may be an event. It returns false when the stream has ended.
func (s *stream) wait() bool { return s.waitUntil(s.ctx) }

// waitUntil is like wait, and also returns when until, a child of the stream's context, ends.
func (s *stream) waitUntil(until context.Context) bool {
	select {
	case <-until.Done():
		return s.ctx.Err() == nil
	case <-s.cursor.Changed():
		return true
	}
}

// bookmarkPause is the shortest wait of waitOrBookmark, since the simulated clock may stand still.
const bookmarkPause = time.Second

// waitOrBookmark is like wait, and also returns when a bookmark is due.
func (s *stream) waitOrBookmark() bool {
	due, ok := s.cursor.BookmarkDue()
	if !ok {
		return s.wait()
	}
	until, cancel := context.WithTimeout(s.ctx, max(bookmarkPause, due.Sub(s.now().Time)))
	defer cancel()
	return s.waitUntil(until)
}

// Read returns the events that are ready, and waits if there are none.
func (s *stream) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.pending) > 0 {
			k := copy(p[n:], s.pending)
			s.pending = s.pending[k:]
			n += k
			if s.cursor.HasGate() {
				return n, nil
			}
			continue
		}
		ok, err := s.encodeNext()
		switch {
		case ok && err == nil:
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		case !s.wait():
			return 0, io.EOF
		}
	}
	return n, nil
}

// Close ends the watch.
func (s *stream) Close() error {
	s.cancel()
	return nil
}

// serve writes events and bookmarks to a connection until the watch ends, the client disconnects, or it
// does not read for a minute. Events that are ready are flushed together. Only one event is held for
// a client that reads slowly; the others are in the resource's log.
//
// Differs: the real server ends a watch whose events it cannot send at once when a buffer is full.
func (s *stream) serve(w http.ResponseWriter, a answer) {
	defer s.release() // a client that has seen the end may watch again
	defer s.cancel()
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	out := http.NewResponseController(w)
	limitWrites(out)
	w.WriteHeader(a.code)
	gated := s.cursor.HasGate() // then the next event may be held back: flush each one
	flushed := gated && flushWithin(out) == nil
	for {
		ok, err := s.encodeNext()
		switch {
		case err != nil:
			return
		case ok:
			limitWrites(out)
			if _, err := w.Write(s.pending); err != nil {
				return
			}
			flushed = gated && flushWithin(out) == nil
		case !flushed:
			if flushWithin(out) != nil {
				return
			}
			flushed = true
		case !s.waitOrBookmark():
			return
		}
	}
}
