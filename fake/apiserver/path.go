package apiserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target is the resource, object or subresource that a path names.
type target struct {
	schema.GroupVersionResource
	namespace string
	name      string
	sub       string // subresource
	watch     bool   // the path has the deprecated prefix /watch
	rest      []string
}

// parsePath parses the path of a resource:
//
//	/api/v1/namespaces/default/pods/a/status
//	/apis/storage.k8s.io/v1/watch/storageclasses
//
// It reports whether the path is valid.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/request RequestInfoFactory.NewRequestInfo.
func parsePath(parts []string) (target, bool) {
	var t target
	if parts[0] == "apis" {
		t.Group = parts[1]
		parts = parts[1:]
	}
	t.Version = parts[1]
	parts = parts[2:]
	if parts[0] == "watch" {
		t.watch = true
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace = parts[1]
		parts = parts[2:]
	}
	for i, to := range []*string{&t.Resource, &t.name, &t.sub} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	if len(parts) > 3 {
		t.rest = parts[3:]
	}
	return t, len(parts) > 0 && len(parts) <= 3 && !(t.watch && t.sub != "")
}

// longRunningSubresources are connections to pods, services and nodes.
var longRunningSubresources = []string{"attach", "exec", "log", "portforward", "proxy"}

// isLongRunning reports whether a request has no deadline: a watch, or a connection to a pod, service or node.
//
// Upstream: k8s.io/apiserver/pkg/server/filters BasicLongRunningRequestCheck.
func isLongRunning(req *http.Request) bool {
	parts := splitPath(req.URL.Path)
	if !namesResource(parts) {
		return false
	}
	t, _ := parsePath(parts)
	return t.watch || slices.Contains(longRunningSubresources, t.sub) ||
		req.Method == http.MethodGet && t.name == "" && isWatch(req.URL.Query())
}

func splitPath(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// namesResource reports whether a path is that of a resource.
func namesResource(parts []string) bool {
	return len(parts) > 2 && parts[0] == "api" || len(parts) > 3 && parts[0] == "apis"
}

// verb returns the API verb of the request. It is "" if the method does not exist for the path.
func (v *resourceRequest) verb() string {
	item := v.name != ""
	switch {
	case v.watch || v.Method == http.MethodGet && !item && isWatch(v.query):
		if v.Method != http.MethodGet {
			return ""
		}
		return "watch"
	case v.Method == http.MethodGet && !item:
		return "list"
	case v.Method == http.MethodGet:
		return "get"
	case v.apiResource.Namespaced && v.namespace == "":
		return ""
	case v.Method == http.MethodPost && (!item || v.sub != ""):
		return "create"
	case v.Method == http.MethodDelete && !item:
		return "deletecollection"
	case !item:
		return ""
	}
	return map[string]string{
		http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[v.Method]
}

// isWatch reports whether a list request asks for a watch.
func isWatch(query url.Values) bool {
	values := query["watch"]
	if len(values) == 0 {
		return false
	}
	v := strings.ToLower(values[0])
	return v != "false" && v != "0"
}

func allows(verbs metav1.Verbs, verb string) bool { return verb != "" && slices.Contains(verbs, verb) }

// notFound answers a request for a path that does not exist.
func (r *request) notFound(t target) (answer, error) {
	for _, d := range r.h.server.Resources() {
		if d.Group == t.Group && d.Custom == nil {
			return answer{}, errPath()
		}
	}
	return pageNotFound(), nil
}

// pageNotFound answers as the real server does outside of all API groups.
func pageNotFound() answer {
	a := newAnswer(http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found\n"))
	a.header.Set("X-Content-Type-Options", "nosniff")
	return a
}
