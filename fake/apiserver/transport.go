package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// NewConfig returns a client-go config whose clients reach the server in memory. Each request is
// answered on the goroutine that makes it, as one or more Calls of caller. There is no socket and
// no goroutine. Reading the body of a watch's response returns the events so far, and that of a log with
// follow what was written so far. A read that waits for more blocks its goroutine: a task of a stepped world
// that follows a log stops that world. No command can be executed in a pod: that requires a connection (Listen).
//
// A config counts its open watches against a limit. Clients that share the config share the limit.
//
// The requests are those of a client of the server, which each of change may replace by another
// one, such as one with fake.Clientset.WithReads.
func NewConfig(
	server *fake.Server, caller sim.Caller, change ...func(client *fake.Clientset) *fake.Clientset,
) *clientrest.Config {
	client := server.Client(caller)
	for _, f := range change {
		client = f(client)
	}
	h := newHandler(server, HandlerConfig{Caller: func(*http.Request) sim.Caller { return caller }})
	h.client = func(*http.Request) *fake.Clientset { return client }
	return &clientrest.Config{Host: "http://volsim.invalid", QPS: -1, Transport: transport{h}}
}

// transport answers requests in memory.
type transport struct{ h *handler }

var _ http.RoundTripper = transport{}

// RoundTrip answers a request. It fails only if the request's context ended before the request took
// effect.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }() // it was read
	}
	a := t.h.newRequest(req).answer()
	if a.canceled != nil {
		return nil, a.canceled
	}
	var log io.ReadCloser
	if a.passed != nil {
		a, log = a.passed.answer(a)
	}
	resp := &http.Response{
		Status: strconv.Itoa(a.code) + " " + http.StatusText(a.code), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header, Request: req,
	}
	if a.stream != nil {
		resp.Body, resp.ContentLength = a.stream, -1
		return resp, nil
	}
	if log != nil {
		resp.Body, resp.ContentLength = log, -1
		return resp, nil
	}
	a.compress(req)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	return resp, nil
}
