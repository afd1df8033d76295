package facts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// HTTPClient returns a client of the server at base, such as "https://127.0.0.1:6443". isReal says
// that it is a real kube-apiserver.
func HTTPClient(base string, transport http.RoundTripper, isReal bool) Client {
	return &httpClient{strings.TrimSuffix(base, "/"), transport, isReal}
}

type httpClient struct {
	base      string
	transport http.RoundTripper
	isReal    bool
}

func (w *httpClient) Traits() Traits { return Traits{HTTP: true, Real: w.isReal} }

var methods = map[string]string{
	"create": http.MethodPost, "get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet,
	"update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete,
	"deletecollection": http.MethodDelete,
}

// send sends a request.
func (w *httpClient) send(ctx context.Context, r Request) (*http.Response, error) {
	method, url := r.Verb, w.base+r.Path
	if r.Path == "" {
		method, url = methods[r.Verb], w.base+pathOf(r)
	}
	if len(r.Query) > 0 {
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		url += separator + r.Query.Encode()
	}
	if r.Verb == "watch" && r.Path == "" {
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		url += separator + "watch=true"
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range r.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	return w.transport.RoundTrip(req)
}

// pathOf returns the path of a request for a resource.
func pathOf(r Request) string {
	parts := []string{"/apis", r.Resource.Group, r.Resource.Version}
	if r.Resource.Group == "" {
		parts = []string{"/api", r.Resource.Version}
	}
	if r.Namespace != "" {
		parts = append(parts, "namespaces", r.Namespace)
	}
	parts = append(parts, r.Resource.Resource)
	if r.Name != "" && (r.Verb != "create" || r.Subresource != "") {
		parts = append(parts, r.Name)
	}
	if r.Subresource != "" {
		parts = append(parts, r.Subresource)
	}
	return strings.Join(parts, "/")
}

// Do makes a request.
func (w *httpClient) Do(ctx context.Context, r Request) (Response, error) {
	res, err := w.send(ctx, r)
	if err != nil {
		return Response{}, err
	}
	defer res.Body.Close()
	return readResponse(res)
}

// readResponse reads an answer.
func readResponse(res *http.Response) (Response, error) {
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return Response{}, err
	}
	out := Response{Code: res.StatusCode, Header: res.Header}
	for _, w := range res.Header.Values("Warning") {
		text := strings.TrimSuffix(strings.TrimPrefix(w, `299 - "`), `"`)
		out.Warnings = append(out.Warnings, strings.ReplaceAll(text, `\"`, `"`))
	}
	out.Text = string(data)
	if v, err := decodeJSON(data); err == nil {
		out.Body, _ = v.(map[string]any)
	}
	return out, nil
}

// Watch starts a watch.
func (w *httpClient) Watch(ctx context.Context, r Request) (Stream, Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	res, err := w.send(ctx, r)
	if err != nil {
		cancel()
		return nil, Response{}, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		defer cancel()
		defer res.Body.Close()
		out, err := readResponse(res)
		return nil, out, err
	}
	s := &httpStream{decoder: json.NewDecoder(res.Body), body: res.Body, cancel: cancel}
	return s, Response{Code: res.StatusCode, Header: res.Header}, nil
}

type httpStream struct {
	decoder *json.Decoder
	body    io.Closer
	cancel  context.CancelFunc
}

// Next waits for an event. The context of the watch ends it.
func (s *httpStream) Next(context.Context) (Event, error) {
	var e struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := s.decoder.Decode(&e); err != nil {
		return Event{}, err
	}
	v, err := decodeJSON(e.Object)
	if err != nil {
		return Event{}, err
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return Event{}, fmt.Errorf("an event's object is %s", e.Object)
	}
	return Event{Type: e.Type, Object: obj}, nil
}

// Close ends the watch.
func (s *httpStream) Close() {
	s.cancel()
	_ = s.body.Close() // the rest of the body is not needed
}
