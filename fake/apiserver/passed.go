package apiserver

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/podconnect"
)

// failureBytesMax is how much of a kubelet's error is read.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/rest maxReadLength.
const failureBytesMax = 50_000

// A passed request is one that a kubelet answers.
type passed struct {
	request *request      // of the client
	asked   *http.Request // of the kubelet
	kubelet http.Handler
	log     bool // it is for a log; otherwise for a connection
}

// serve answers over a connection. The kubelet takes over the connection, or writes the log to it.
func (p *passed) serve(w http.ResponseWriter, a answer) {
	maps.Copy(w.Header(), a.header)
	if !p.log {
		p.kubelet.ServeHTTP(w, p.asked)
		return
	}
	log := &logWriter{to: w, out: http.NewResponseController(w), header: http.Header{}}
	p.kubelet.ServeHTTP(log, p.asked)
	log.WriteHeader(http.StatusOK)
	if log.failed() {
		refusal := p.refusal(log.code, log.failure.String())
		refusal.write(w)
	}
}

// answer answers in memory. The returned body, if any, replaces that of the answer.
func (p *passed) answer(a answer) (answer, io.ReadCloser) {
	if !p.log {
		return p.request.errorAnswer(apierrors.NewBadRequest("no connection: a command can be executed only by a server that listens " +
			"(apiserver.Listen)")), nil
	}
	taken := &takenLog{responseRecorder: responseRecorder{header: http.Header{}}}
	p.kubelet.ServeHTTP(taken, p.asked)
	recorded := taken.answer()
	if isFailure(recorded.code) {
		return p.refusal(recorded.code, string(recorded.body[:min(len(recorded.body), failureBytesMax)])), nil
	}
	a.code, a.body = http.StatusOK, recorded.body
	a.header.Set("Content-Type", logMedia)
	return a, taken.log
}

// logMedia is the media type of a log.
const logMedia = "text/plain"

func isFailure(code int) bool { return code < http.StatusOK || code > http.StatusPartialContent }

// refusal answers with a kubelet's error.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/rest GenericHttpResponseChecker (v1.36).
func (p *passed) refusal(code int, text string) answer {
	var err error
	switch code {
	case http.StatusInternalServerError:
		err = apierrors.NewInternalError(errors.New(text))
	case http.StatusBadRequest:
		err = apierrors.NewBadRequest(text)
	default:
		t, _ := parsePath(splitPath(p.request.URL.Path))
		err = apierrors.NewGenericServerResponse(code, "", schema.GroupResource{Resource: "pods/log"}, t.name, text, 0, false)
	}
	return p.request.errorAnswer(err)
}

// A takenLog is a response in memory, whose body may be a log that is read later.
type takenLog struct {
	responseRecorder
	log io.ReadCloser // nil: the body was written
}

var _ podconnect.BodyTaker = (*takenLog)(nil)

// TakeBody takes the log.
func (t *takenLog) TakeBody(body io.ReadCloser) { t.log = body }

// A logWriter writes a kubelet's log to a connection, and keeps its error. Each write may take stallMax. After a flush
// the connection may be idle.
type logWriter struct {
	to      http.ResponseWriter
	out     *http.ResponseController
	header  http.Header // the kubelet's, of which nothing is passed on
	code    int         // 0: not yet known
	failure bytes.Buffer
}

// Header returns the kubelet's header.
func (l *logWriter) Header() http.Header { return l.header }

func (l *logWriter) failed() bool { return isFailure(l.code) }

// WriteHeader sends the header if there is a log. Only the first call counts.
func (l *logWriter) WriteHeader(code int) {
	if l.code != 0 {
		return
	}
	l.code = code
	if l.failed() {
		return
	}
	l.to.Header().Set("Content-Type", logMedia)
	limitWrites(l.out)
	l.to.WriteHeader(http.StatusOK)
	_ = flushWithin(l.out) // the next write returns the error, if any
}

// Write sends a part of the log, or keeps a part of the error.
func (l *logWriter) Write(data []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	if l.failed() {
		l.failure.Write(data[:min(len(data), failureBytesMax-l.failure.Len())])
		return len(data), nil
	}
	limitWrites(l.out)
	return l.to.Write(data)
}

// FlushError sends what was written, for http.ResponseController.
func (l *logWriter) FlushError() error {
	l.WriteHeader(http.StatusOK)
	if l.failed() {
		return nil
	}
	return flushWithin(l.out)
}
