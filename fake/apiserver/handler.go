package apiserver

import (
	"cmp"
	"net/http"
	"net/url"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/openapi"
	"github.com/volsim/volsim/internal/auditrecord"
	"github.com/volsim/volsim/sim"
)

// HandlerConfig configures NewHandler.
type HandlerConfig struct {
	Caller func(*http.Request) sim.Caller // returns the caller that a request is made as; required
	// Client replaces the client that answers a request by another one, such as that of another user
	// (fake.Clientset.AsUser). nil: it stays.
	Client func(client *fake.Clientset) *fake.Clientset

	// WithoutKubelets refuses requests for kubelets (nodes/NAME/proxy, pods/NAME/log, pods/NAME/exec), as if
	// fake.Config.Kubelets were nil.
	WithoutKubelets bool

	// Audit records the requests, such as a log of package fake/audit. nil: they are not recorded.
	Audit auditrecord.Log

	BodyBytesMax      int64 // of a request's body; a longer one is answered with 413. 0: 3 MiB
	WatchesMax        int   // open at the same time; another one is answered with 429. 0: 10,000
	WatchesPerUserMax int   // open at the same time by one user; another one is answered with 429. 0: 2,500
	ReadingMax        int   // requests that read, watches excepted, at the same time; another one is answered with 429. 0: 400
	MutatingMax       int   // the same of requests that write. 0: 200
}

// handler answers requests.
type handler struct {
	server  *fake.Server
	caller  func(*http.Request) sim.Caller
	client  func(*http.Request) *fake.Clientset
	bodyMax int64
	watches slots
	byUser  userSlots // watches
	reading slots     // requests over a connection
	writing slots     // the same
	codecs  *codecs
	proxies bool // requests for kubelets are passed on
	audit   auditrecord.Log

	mu         sync.Mutex
	document   *openapi.Document // guarded by mu: of the resources at generation
	generation int64             // guarded by mu
}

// NewHandler returns a handler that serves every resource of the server. A panic during a request
// propagates through ServeHTTP.
func NewHandler(server *fake.Server, cfg HandlerConfig) http.Handler { return newHandler(server, cfg) }

func newHandler(server *fake.Server, cfg HandlerConfig) *handler {
	h := &handler{server: server, caller: cfg.Caller, codecs: newCodecs(), proxies: !cfg.WithoutKubelets, audit: cfg.Audit}
	h.client = func(req *http.Request) *fake.Clientset {
		client := server.Client(cfg.Caller(req))
		if cfg.Client != nil {
			client = cfg.Client(client)
		}
		return client
	}
	h.bodyMax = cmp.Or(cfg.BodyBytesMax, bodyBytesMax)
	h.watches.max = cmp.Or(int64(cfg.WatchesMax), watchesMax)
	h.byUser.max = cmp.Or(cfg.WatchesPerUserMax, watchesPerUserMax)
	h.reading.max = cmp.Or(int64(cfg.ReadingMax), readingMax)
	h.writing.max = cmp.Or(int64(cfg.MutatingMax), mutatingMax)
	return h
}

// request is a request that is being answered.
type request struct {
	*http.Request
	h        *handler
	query    url.Values
	warnings []string
	user     *authenticationv1.UserInfo // the user that the request impersonates; nil: none
	limited  bool                       // it counts as a request in flight
	done     func()                     // called once the answer was sent; may be nil
}

// answer is the answer to a request.
type answer struct {
	code     int
	header   http.Header
	body     []byte
	stream   *stream // of a watch, instead of a body
	passed   *passed // to a kubelet, which answers instead
	canceled error   // the request's context ended before the request took effect
}

func newAnswer(code int, contentType string, body []byte) answer {
	return answer{code: code, header: http.Header{
		"Cache-Control": {"no-cache, private"}, "Content-Type": {contentType},
	}, body: body}
}

func (h *handler) newRequest(req *http.Request) *request {
	return &request{Request: req, h: h, query: req.URL.Query()}
}

// answer answers a request.
func (r *request) answer() answer {
	if _, err := timeoutOf(r.query); err != nil && !isLongRunning(r.Request) {
		return r.errorAnswer(err)
	}
	parts := splitPath(r.URL.Path)
	asked := r.asked(parts)
	if err := r.impersonate(asked); err != nil {
		return r.errorAnswer(err)
	}
	if !r.enter(parts) {
		return tooManyRequests()
	}
	if err := r.authorize(parts, asked); err != nil {
		return r.errorAnswer(err)
	}
	first := ""
	if len(parts) > 0 {
		first = parts[0]
	}
	switch {
	case namesResource(parts):
		a, err := r.resource(parsePath(parts))
		if err != nil {
			a = r.errorAnswer(err)
		}
		return r.addWarnings(a)
	case first == "api", first == "apis":
		return r.discovery(parts)
	case first == "openapi":
		return r.openapi(parts)
	case first == "version" && len(parts) == 1:
		return r.version()
	case first == "":
		return r.paths()
	case (first == "healthz" || first == "livez" || first == "readyz") && len(parts) <= 2:
		return r.health(parts)
	}
	return pageNotFound()
}

// resource answers a request for a resource.
func (r *request) resource(t target, ok bool) (answer, error) {
	if t.isKubelet() && r.h.hasKubelets() {
		return r.proxyKubelet(t)
	}
	if !ok {
		return r.notFound(t)
	}
	client := r.client()
	if t.Group == "" && t.Resource == "bindings" {
		return r.bindings(client, t)
	}
	resource, ok := client.Resource(t.GroupVersionResource, t.namespace)
	if !ok {
		return r.review(client, t)
	}
	d := resource.Describe()
	if d.Namespaced && t.namespace == "" && (t.name != "" || d.Custom != nil && r.Method != http.MethodGet) ||
		!d.Namespaced && t.namespace != "" {
		return r.notFound(t)
	}
	v := &resourceRequest{request: r, target: t, client: resource, apiResource: d}
	if err := v.negotiate(); err != nil {
		return answer{}, err
	}
	return v.dispatch()
}

// resourceRequest is a request for a resource that the server has.
type resourceRequest struct {
	*request
	target
	client      fake.ResourceClient
	apiResource fake.APIResource
	form        form
}

// dispatch carries out the request according to its verb.
func (v *resourceRequest) dispatch() (answer, error) {
	verb := v.verb()
	if c := v.apiResource.Custom; c != nil && c.Deprecated[v.Version] != "" {
		v.warn(c.Deprecated[v.Version])
	}
	switch {
	case v.sub != "":
		return v.subresource(verb)
	case !allows(v.apiResource.Verbs, verb):
		return answer{}, errMethod()
	}
	switch verb {
	case "get":
		return v.get(v.client)
	case "list":
		return v.list()
	case "watch":
		return v.watchResource()
	case "create":
		return v.create()
	case "update":
		return v.update(v.client)
	case "patch":
		return v.patch(v.client)
	case "delete":
		return v.delete()
	default:
		return v.deleteCollection()
	}
}

// encodedAnswer answers with an object, encoded in the form f.
func (r *request) encodedAnswer(code int, f form, obj runtime.Object) (answer, error) {
	r.record().ResponseObject(obj)
	body, err := r.h.codecs.encode(f, obj)
	if err != nil {
		return answer{}, err
	}
	return newAnswer(code, f.media, body), nil
}

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.audited(http.HandlerFunc(h.serve)).ServeHTTP(w, req)
}

func (h *handler) serve(w http.ResponseWriter, req *http.Request) {
	r := h.newRequest(req)
	r.limited = true
	defer func() {
		if r.done != nil {
			r.done()
		}
	}()
	a := r.answer()
	switch {
	case a.stream != nil:
		a.stream.serve(w, a)
		return
	case a.passed != nil:
		a.passed.serve(w, a)
		return
	}
	a.compress(req)
	a.write(w)
}

// write writes an answer with a body to a connection.
func (a *answer) write(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // an error means that the client disconnected
}
