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

// target is the resource or object of a request.
type target struct {
	resource  string // "": not a resource
	namespace string
	name      string
	sub       string // subresource
}

// targetOf parses a path, relative to that of the server's URL:
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

// action returns the action that represents a request in the trace, as in package fake: the API
// verb with the subresource, and "resource/namespace/name".
func (t *transport) action(req *http.Request, sent runtime.Object) trace.Action {
	path := strings.TrimPrefix(req.URL.Path, strings.TrimSuffix(t.base, "/"))
	target := targetOf(path)
	a := trace.Action{Kind: trace.KindAPI, Verb: target.verb(req), Object: target.resource}
	if target.resource == "" {
		a.Object = path
		return a
	}
	if target.sub != "" {
		a.Verb += "/" + target.sub
	}
	if req.Method == http.MethodPost && target.name == "" {
		target.name = nameOf(sent)
	}
	for _, word := range []string{target.namespace, target.name} {
		if word != "" {
			a.Object += "/" + word
		}
	}
	return a
}

// verb returns the API verb of a request.
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

// isStreaming reports whether the answer is a stream without an end.
func isStreaming(req *http.Request) bool {
	query := req.URL.Query()
	follow := query.Get("follow")
	return isWatch(query) || follow == "true" || follow == "1" || req.Header.Get("Upgrade") != ""
}

// sentObject returns the object in the body of a create or update request, or nil.
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

// nameOf returns the name of an object to create. A generated name is shown as its prefix with a
// star.
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

// decode decodes an object in any media type. It returns nil if the kind is unknown.
func decode(body []byte) runtime.Object {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil
	}
	return obj
}
