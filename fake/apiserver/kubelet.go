package apiserver

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// isKubelet reports whether a path is that of a node's kubelet: /api/v1/nodes/NAME/proxy/…
func (t target) isKubelet() bool {
	return t.Group == "" && t.Version == corev1.SchemeGroupVersion.Version && t.namespace == "" && !t.watch &&
		t.Resource == "nodes" && t.sub == "proxy"
}

// hasKubelets reports whether requests for kubelets are passed on.
func (h *handler) hasKubelets() bool {
	if !h.proxies {
		return false
	}
	_, served := h.server.Kubelet("")
	return served
}

// proxyKubelet passes a request on to the kubelet of an existing node.
//
// Differs: the scheme and the port before and after the node's name have no meaning.
//
// Upstream: pkg/registry/core/node/rest ProxyREST, pkg/registry/core/node ResourceLocation (v1.36).
func (r *request) proxyKubelet(t target) (answer, error) {
	_, node, _, valid := utilnet.SplitSchemeNamePort(t.name)
	if !valid {
		return answer{}, apierrors.NewBadRequest("invalid node request \"" + t.name + "\"")
	}
	nodes, _ := r.h.client(r.Request).Resource(corev1.SchemeGroupVersion.WithResource("nodes"), "")
	if _, err := nodes.Get(r.Context(), node, metav1.GetOptions{}); err != nil {
		return answer{}, err
	}
	kubelet, _ := r.h.server.Kubelet(node)
	if kubelet == nil {
		return answer{}, apierrors.NewServiceUnavailable("error trying to reach service: kubelet of " + node + ": connection refused")
	}
	path := "/" + strings.Join(t.rest, "/")
	if path != "/" && strings.HasSuffix(r.URL.Path, "/") {
		path += "/"
	}
	passed := r.Clone(r.Context())
	passed.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	passed.RequestURI = passed.URL.RequestURI()
	recorder := &responseRecorder{header: http.Header{}}
	kubelet.ServeHTTP(recorder, passed)
	if err := r.Context().Err(); err != nil {
		return answer{}, err
	}
	return recorder.answer(), nil
}

// A responseRecorder is a response that becomes an answer.
type responseRecorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the header of the response.
func (r *responseRecorder) Header() http.Header { return r.header }

// WriteHeader sets the code. Only the first call counts.
func (r *responseRecorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

// Write appends to the body.
func (r *responseRecorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}

func (r *responseRecorder) answer() answer {
	r.WriteHeader(http.StatusOK)
	return answer{code: r.code, header: r.header, body: r.body.Bytes()}
}
