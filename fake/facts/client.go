package facts

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrUnsupported is returned by a way that cannot make a request, because its client has no words for it.
var ErrUnsupported = errors.New("this way cannot make such a request")

// Client is a way to make requests of a server.
type Client interface {
	// Do makes a request. An answer that is an error of the API is a Response, too.
	Do(ctx context.Context, r Request) (Response, error)
	// Watch begins a watch. The Stream is nil if the answer is an error. It ends with ctx.
	Watch(ctx context.Context, r Request) (Stream, Response, error)
	// Traits tells what kind of way it is.
	Traits() Traits
}

// Traits is what facts need to know of a way.
type Traits struct {
	HTTP bool // shows headers, media types, paths; takes bodies that are no objects
	Real bool // leads to a real kube-apiserver
}

// Request is a request for a resource, or, with Path, for anything.
type Request struct {
	Verb        string // create, get, list, watch, update, patch, delete, deletecollection; with Path a method of HTTP
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
	Path        string
	Query       url.Values
	Header      http.Header // Content-Type is the type of a patch
	Body        []byte      // JSON, or what the fact says
}

// Response is an answer.
type Response struct {
	Code     int            // 0: it succeeded
	Body     map[string]any // nil: this way does not show it
	Text     string         // the body as it came; "" if the way has no wire
	Header   http.Header
	Warnings []string
}

// ok tells whether the answer is not an error.
func (r Response) ok() bool { return r.Code < 300 }

// Stream is a watch under way.
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
