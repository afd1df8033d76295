package facts

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrUnsupported is returned by a Client that cannot make a request.
var ErrUnsupported = errors.New("request not supported by the client")

// Client makes requests of a server.
type Client interface {
	// Do makes a request. An API error is returned as a Response.
	Do(ctx context.Context, r Request) (Response, error)
	// Watch starts a watch, which ends with ctx. The Stream is nil if the answer is an error.
	Watch(ctx context.Context, r Request) (Stream, Response, error)
	// Traits returns the capabilities of the client.
	Traits() Traits
}

// Traits are the capabilities of a Client.
type Traits struct {
	HTTP bool // has headers, media types and paths; sends any body
	Real bool // reaches a real kube-apiserver
}

// Request is a request for a resource, or, with Path, for any path.
type Request struct {
	Verb        string // create, get, list, watch, update, patch, delete, deletecollection; with Path a method of HTTP
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
	Path        string
	Query       url.Values
	Header      http.Header // Content-Type is the type of a patch
	Body        []byte      // JSON, or any text
}

// Response is an answer.
type Response struct {
	Code     int            // 0: success
	Body     map[string]any // nil: the client does not show it
	Text     string         // the raw body; "" if the client has no wire format
	Header   http.Header
	Warnings []string
}

// ok reports whether the answer is a success.
func (r Response) ok() bool { return r.Code < 300 }

// Stream is an open watch.
type Stream interface {
	// Next waits for an event. It returns io.EOF when the watch has ended.
	Next(ctx context.Context) (Event, error)
	// Close ends the watch.
	Close()
}

// Event is an event of a watch.
type Event struct {
	Type   string
	Object map[string]any
}
