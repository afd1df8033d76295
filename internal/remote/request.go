package remote

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volsim/volsim/sim/trace"
)

// target is what a request is about.
type target struct {
	resource  string // "" for what is not about a resource
	namespace string
	name      string
	sub       string // subresource
}

// targetOf reads a path, below the server's own:
//
//	/api/v1/namespaces/default/pods/a/status
//	/apis/storage.k8s.io/v1/storageclasses/fast
//
// Upstream: k8s.io/apiserver/pkg/endpoints/request RequestInfoFactory.NewRequestInfo.
func targetOf(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return target{}
	}
	var t target
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.resource = parts[0]
	if len(parts) > 1 {
		t.name, t.sub = parts[1], strings.Join(parts[2:], "/")
	}
	return t
}

// action names a request in the trace, as package fake does: the API's verb with the subresource, and
// "resource/namespace/name".
func (t *transport) action(req *http.Request, sent runtime.Object) trace.Action {
	path := strings.TrimPrefix(req.URL.Path, strings.TrimSuffix(t.base, "/"))
	what := targetOf(path)
	a := trace.Action{Kind: trace.KindAPI, Verb: what.verb(req), Object: what.resource}
	if what.resource == "" {
		a.Object = path
		return a
	}
	if what.sub != "" {
		a.Verb += "/" + what.sub
	}
	if req.Method == http.MethodPost && what.name == "" {
		what.name = nameOf(sent)
	}
	for _, word := range []string{what.namespace, what.name} {
		if word != "" {
			a.Object += "/" + word
		}
	}
	return a
}

// verb is the API's word for what a request does.
func (t target) verb(req *http.Request) string {
	one := t.name != ""
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if one {
			return "delete"
		}
		return "deletecollection"
	}
	switch {
	case isWatch(req.URL.Query()):
		return "watch"
	case one || t.resource == "":
		return "get"
	default:
		return "list"
	}
}

func isWatch(query url.Values) bool {
	v := query.Get("watch")
	return v == "true" || v == "1"
}

// isStreaming tells whether the answer has no end of its own.
func isStreaming(req *http.Request) bool {
	query := req.URL.Query()
	follow := query.Get("follow")
	return isWatch(query) || follow == "true" || follow == "1" || req.Header.Get("Upgrade") != ""
}

// sentObject is the object that a creation or an update sends; nil if there is none.
func sentObject(req *http.Request) runtime.Object {
	if req.GetBody == nil || req.Method != http.MethodPost && req.Method != http.MethodPut {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }() // it is in memory
	sent, err := io.ReadAll(body)
	if err != nil {
		return nil
	}
	return decode(sent)
}

// nameOf is the name of an object that is to be made; what the server is to add to is followed by a star.
func nameOf(sent runtime.Object) string {
	obj, err := meta.Accessor(sent)
	switch {
	case err != nil:
		return ""
	case obj.GetName() == "" && obj.GetGenerateName() != "":
		return obj.GetGenerateName() + "*"
	default:
		return obj.GetName()
	}
}

// decode reads an object in whatever form it is; nil if it is none that is known.
func decode(body []byte) runtime.Object {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil
	}
	return obj
}
