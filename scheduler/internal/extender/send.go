package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/sim/trace"
)

// errTimeout is the error of a request without an answer, as net/http has it.
var errTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

// A request is one question to an extender.
type request struct {
	verb    string // of the record
	path    string // the configured verb
	pod     string // namespace/name
	args    any
	result  any           // is decoded into
	changes bool          // the extender may change something
	summary func() string // what is recorded of the result; nil: nothing
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// send sends a request and decodes the response. It is one call of the process, followed by a wait if a
// process of its own answers.
//
// Upstream: pkg/scheduler HTTPExtender.send (v1.36).
func (e *Extender) send(ctx context.Context, r request) error {
	body, err := json.Marshal(r.args)
	if err != nil {
		return err
	}
	target := strings.TrimRight(e.cfg.URLPrefix, "/") + "/" + r.path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")

	var own error // the error without an injected fault
	var exchange *endpoint.Exchange
	decoded := false
	action := trace.Action{Kind: trace.KindDriver, Verb: r.verb, Object: traceName(e.cfg.URLPrefix) + "/" + r.pod}
	out := e.process.Call(action, func() trace.Outcome {
		var resp *http.Response
		if e.endpoint == nil {
			resp, own = e.client.Do(req)
		} else if exchange = e.endpoint.Send(req, e.process.Wake); exchange.Done() {
			resp, own = responseOf(exchange, target)
		}
		outcome := trace.Outcome{Read: !r.changes}
		if resp != nil {
			decoded = true
			if own = r.decode(resp, target); own == nil && r.summary != nil {
				outcome.Detail = r.summary()
			}
		}
		outcome.Err = own
		return outcome
	})
	switch {
	case out.Err != nil && !errors.Is(out.Err, own):
		return injected(r.path, target, out.Err)
	case own != nil || decoded:
		return own
	case !e.process.Wait(target, e.timeout, exchange.Done):
		return postError(target, errTimeout)
	}
	resp, err := responseOf(exchange, target)
	if err != nil {
		return err
	}
	return r.decode(resp, target)
}

// responseOf returns the response of a request that is done.
func responseOf(x *endpoint.Exchange, target string) (*http.Response, error) {
	resp, err := x.Response()
	if err != nil {
		return nil, postError(target, err)
	}
	return resp, nil
}

// decode reads a response.
func (r *request) decode(resp *http.Response, target string) error {
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		return statusError(r.path, target, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(r.result)
}

func statusError(path, target string, code int) error {
	return fmt.Errorf("failed %v with extender at URL %v, code %v", path, target, code)
}

func postError(target string, err error) error {
	return &url.Error{Op: "Post", URL: target, Err: err}
}

// injected returns the error that the client of a server has instead of that of a fault: no answer in time,
// no connection, or an error of the server.
func injected(path, target string, fault error) error {
	switch status.Code(fault) {
	case codes.DeadlineExceeded:
		return postError(target, errTimeout)
	case codes.Unavailable:
		return postError(target, endpoint.ErrRefused)
	default:
		return statusError(path, target, http.StatusInternalServerError)
	}
}

// traceName returns the name of an extender in records: its host.
func traceName(prefix string) string {
	if u, err := url.Parse(prefix); err == nil && u.Host != "" {
		return u.Host
	}
	return strings.ReplaceAll(prefix, "/", "_")
}
