package apirequest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A Request is an API request that writes.
type Request struct {
	method, path string
	agent, media string // as in the text; "": not given
	body         string // as in the text
}

// methods are the methods of requests that write.
var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// mediaJSON is the media type of a body whose type is not given.
const mediaJSON = "application/json"

// mediaTypes are media types by their short names, which are those of "kubectl patch --type" for
// patches.
var mediaTypes = map[string]string{
	"apply": string(types.ApplyYAMLPatchType), "json": string(types.JSONPatchType),
	"merge": string(types.MergePatchType), "strategic": string(types.StrategicMergePatchType),
	"protobuf": runtime.ContentTypeProtobuf,
}

// Of returns the request of a client, with this body.
func Of(r *http.Request, body []byte) Request {
	q := Request{method: r.Method, path: r.URL.RequestURI(), body: bodyText(body)}
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	q.agent = url.PathEscape(agent)
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media == mediaJSON {
		return q
	}
	q.media = media
	for short, long := range mediaTypes {
		if media == long {
			q.media = short
		}
	}
	return q
}

// String returns the text form.
func (q Request) String() string {
	words := []string{q.method, q.path}
	if q.agent != "" {
		words = append(words, "as="+q.agent)
	}
	if q.media != "" {
		words = append(words, "type="+q.media)
	}
	if q.body != "" {
		words = append(words, q.body)
	}
	return strings.Join(words, " ")
}

// bodyText returns a body as it is written in an act: JSON in one line, or a quoted string.
func bodyText(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err == nil && isJSON(compact.String()) && utf8.Valid(body) &&
		!bytes.ContainsFunc(compact.Bytes(), unicode.IsControl) {
		return compact.String()
	}
	return strconv.Quote(string(body))
}

// isJSON reports whether the text of a body is JSON. Otherwise it is a quoted string.
func isJSON(text string) bool {
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// Parse parses the text form.
func Parse(text string) (Request, error) {
	var q Request
	q.method, text = nextWord(text)
	q.path, text = nextWord(text)
	switch _, err := url.ParseRequestURI(q.path); {
	case !slices.Contains(methods, q.method):
		return Request{}, fmt.Errorf("method %q: want a request that writes: %s", q.method, strings.Join(methods, ", "))
	case err != nil || !strings.HasPrefix(q.path, "/"):
		return Request{}, fmt.Errorf("path %q: want a path of the API, such as /api/v1/namespaces/default/pods", q.path)
	}
	for text != "" && !isJSON(text) && text[0] != '"' {
		var word string
		word, text = nextWord(text)
		key, value, _ := strings.Cut(word, "=")
		_, err := url.PathUnescape(value)
		switch {
		case key == "as" && value != "" && err == nil:
			q.agent = value
		case key == "type" && value != "":
			q.media = value
		default:
			return Request{}, fmt.Errorf("unexpected %q: want as=CLIENT, type=TYPE, or a body: JSON in one line or a quoted string", word)
		}
	}
	q.body = text
	if _, err := q.bodyBytes(); err != nil {
		return Request{}, err
	}
	if q.method == http.MethodPatch && q.media == "" {
		return Request{}, errors.New("a PATCH has a type: want type=merge, type=strategic, type=json or type=apply")
	}
	return q, nil
}

// nextWord splits off the first word.
func nextWord(text string) (word, rest string) {
	word, rest, _ = strings.Cut(strings.TrimSpace(text), " ")
	return word, strings.TrimSpace(rest)
}

// bodyBytes returns the body of a request.
func (q Request) bodyBytes() ([]byte, error) {
	switch {
	case q.body == "":
		return nil, nil
	case !isJSON(q.body):
		body, err := strconv.Unquote(q.body)
		if err != nil {
			return nil, fmt.Errorf("body %s: want JSON or a quoted string", q.body)
		}
		return []byte(body), nil
	case !json.Valid([]byte(q.body)):
		return nil, errors.New("the body is not valid JSON: it must be in one line")
	default:
		return []byte(q.body), nil
	}
}

// Send sends the request to a server. The error is for a request that the server does not
// understand, such as one for an unknown resource. The answer to any other request is in the trace.
func (q Request) Send(ctx context.Context, s *fake.Server, as sim.Caller) error {
	body, err := q.bodyBytes()
	if err != nil {
		return err
	}
	calls := &writeCounter{Caller: as}
	server := apiserver.NewConfig(s, calls)
	r, err := http.NewRequestWithContext(ctx, q.method, server.Host+q.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	media := cmp.Or(mediaTypes[q.media], q.media, mediaJSON)
	r.Header.Set("Content-Type", media)
	if agent, err := url.PathUnescape(q.agent); err == nil && agent != "" {
		r.Header.Set("User-Agent", agent)
	}
	reply, err := server.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	answer, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode < http.StatusBadRequest || calls.made > 0 {
		return err
	}
	status := metav1.Status{}
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		status.Message = strings.TrimSpace(string(answer))
	}
	return fmt.Errorf("answered %d: %s", reply.StatusCode, status.Message)
}

// A writeCounter counts the calls that write. Others leave no trace.
type writeCounter struct {
	sim.Caller
	made int
}

// Call implements sim.Caller.
func (c *writeCounter) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if !Writes(action) {
		return effect()
	}
	c.made++
	return c.Caller.Call(action, effect)
}

// Writes reports whether a call of a request with a writing method may change the API server. That
// of "kubectl exec" reads the pod before it is refused, and a review is only answered.
func Writes(action trace.Action) bool {
	verb, _, _ := strings.Cut(action.Verb, "/")
	resource, _, _ := strings.Cut(action.Object, "/")
	return !slices.Contains([]string{"get", "list", "watch"}, verb) && !strings.HasSuffix(resource, "reviews")
}
